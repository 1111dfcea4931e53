"""Dynamic beam allocation: hypotheses that contain more of the required phrases keep a share of the beam.

After Post and Vilar (2018). Without it, hypotheses that postpone a phrase score higher until the length limit forces
the phrase, which then ends up where it does not belong.

Shapes: B sentences, K live hypotheses per sentence, V target vocabulary, n candidates, P phrases.
"""

from __future__ import annotations

__all__ = ["PhraseAllocation"]

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from s2s.tensors import host_copies, to_device
from s2s_constraints.automaton import TextAutomaton, text_states
from s2s_constraints.bad_words import NONE

if TYPE_CHECKING:
    from s2s.decoding import Candidates


@dataclass(frozen=True)
class PhraseAllocation:
    """Divides the beam into banks: a bank holds the hypotheses that lack the same number of tokens."""

    texts: TextAutomaton
    """Whose states are the last columns of those of all constraints"""
    normalize: bool
    """Whether the model returns logits, which must be normalised"""

    def add_required(
        self, states: Tensor, logits: Tensor, allowed: Tensor, log_probs: Tensor, tokens: Tensor, banned: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The candidates of each hypothesis, and the next tokens of its missing phrases: [B, K, n + P]

        states [B, K, ·], logits and allowed [B, K, V], log_probs and tokens [B, K, n]; -inf marks no candidate.
        """
        required = self._required(states)
        if not required.size(-1):
            return log_probs, tokens
        earlier = torch.cat([tokens, required], dim=-1)[..., None, :] == required[..., None]  # [B, K, P, n + P]
        n, positions = tokens.size(-1), torch.arange(earlier.size(-1), device=tokens.device)
        twice = (earlier & (positions < n + torch.arange(required.size(-1), device=tokens.device)[:, None])).any(-1)
        useless = (required == NONE) | twice | torch.isin(required, banned)
        logits, required = logits.float(), required.clamp(min=0)
        required_logits = logits.gather(-1, required)
        if self.normalize:
            required_logits = required_logits - logits.logsumexp(-1, keepdim=True)
        impossible = useless | ~allowed.gather(-1, required) | ~required_logits.isfinite()
        return torch.cat([log_probs, required_logits.masked_fill(impossible, -torch.inf)], dim=-1), torch.cat(
            [tokens, required], dim=-1
        )

    def select(self, states: Tensor, candidates: Candidates, n: int) -> Candidates:
        """n candidates, best first: the best of every bank, then the second best of every bank, and so on.

        If a round does not fit entirely, banks that lack the fewest tokens come first. All on the host, which needs
        the tokens: it reads the candidates once, and those that it has selected before not again.
        """
        known = type(candidates)(*host_copies(candidates))
        missing = self.texts.missing_after(text_states(states), known.token, known.parents)
        n_tokens = int(missing.max()) + 1
        bank = missing.masked_fill(known.score == -torch.inf, n_tokens)
        bank, order = bank.sort(stable=True)  # candidates are sorted by score, and stay sorted within a bank
        rank = torch.arange(bank.size(1)) - torch.searchsorted(bank, bank)
        turn = (rank * n_tokens + bank).masked_fill(bank == n_tokens, torch.iinfo(torch.long).max)
        selected = order.gather(1, turn.argsort(stable=True)[:, :n]).sort().values
        return type(candidates)(*(to_device(values.gather(1, selected), states.device) for values in known))

    def _required(self, states: Tensor) -> Tensor:
        """The next tokens of missing phrases: states [B, K, ·] -> [B, K, P], NONE where there are fewer."""
        required = self.texts.required(text_states(states))
        n = max(map(len, required))
        rows = [[*tokens, *[NONE] * (n - len(tokens))] for tokens in required]
        return torch.tensor(rows, dtype=torch.long, device=states.device).view(*states.shape[:2], n)
