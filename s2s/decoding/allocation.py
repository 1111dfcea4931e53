"""Beam search towards phrases: hypotheses that have written more of them keep their share of the beam.

Dynamic beam allocation, after Post and Vilar (2018). Without it, whoever postpones a phrase is ahead until the last
moment, and the phrase is then squeezed in where it does not belong.

Shapes: B sentences, K live hypotheses per sentence, V target vocabulary, n candidates, P phrases.
"""

from __future__ import annotations

__all__ = ["BeamAllocation", "build_allocation"]

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from s2s.decoding.constraints import NONE, All
from s2s.decoding.lexical import Phrases
from s2s.decoding.topk import pick

if TYPE_CHECKING:
    from s2s.decoding.hypotheses import Candidates
    from s2s.task import Constraint


def build_allocation(constraint: Constraint | None, *, normalize: bool) -> BeamAllocation | None:
    """How the beam is shared; None: nobody asks for phrases. normalize: whether the model gives logits."""
    if isinstance(constraint, All):
        for other, columns in constraint.columns():
            if isinstance(other, Phrases):
                return BeamAllocation(other, columns, normalize)
    return None


@dataclass(frozen=True)
class BeamAllocation:
    """Shares of the beam."""

    phrases: Phrases
    columns: slice
    """Where its states stand in those of all constraints"""
    normalize: bool
    """Whether what the model gives is logits, of which log-probabilities are to be made"""

    def more(
        self, automaton: Tensor, logits: Tensor, allowed: Tensor, log_probs: Tensor, tokens: Tensor, banned: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The candidates of each hypothesis, and those that bring it nearer to its phrases: [B, K, n + P]

        automaton [B, K, ·], logits and allowed [B, K, V], log_probs and tokens [B, K, n]; -inf: no candidate.
        """
        wanted = self.phrases.wanted(automaton[..., self.columns])
        earlier = torch.cat([tokens, wanted], dim=-1)[..., None, :] == wanted[..., None]  # [B, K, P, n + P]
        n, places = tokens.size(-1), torch.arange(earlier.size(-1), device=tokens.device)
        twice = (earlier & (places < n + torch.arange(wanted.size(-1), device=tokens.device)[:, None])).any(-1)
        useless = (wanted == NONE) | twice | torch.isin(wanted, banned)
        logits, wanted = logits.float(), wanted.clamp(min=0)
        of_wanted = logits.gather(-1, wanted)
        if self.normalize:
            of_wanted = of_wanted - logits.logsumexp(-1, keepdim=True)
        impossible = useless | ~allowed.gather(-1, wanted) | ~of_wanted.isfinite()
        return torch.cat([log_probs, of_wanted.masked_fill(impossible, -torch.inf)], dim=-1), torch.cat(
            [tokens, wanted], dim=-1
        )

    def best(self, automaton: Tensor, longer: Candidates, n: int) -> Candidates:
        """The best of every bank, then the second best of every bank, and so on to n; they stand best first again.

        A bank holds hypotheses that lack equally many symbols. Where not all have a place, those that lack fewest do.
        """
        state = self.phrases.advance(pick(automaton, longer.parents)[..., self.columns], longer.token)
        n_symbols = self.phrases.n_phrases * self.phrases.longest + 1  # no output lacks so many
        bank = self.phrases.missing(state).masked_fill(longer.score == -torch.inf, n_symbols)
        bank, order = bank.sort(stable=True)  # candidates stand best first, and so they do in each bank
        place = torch.arange(bank.size(1), device=bank.device) - torch.searchsorted(bank, bank)
        turn = (place * n_symbols + bank).masked_fill(bank == n_symbols, torch.iinfo(torch.long).max)
        chosen = order.gather(1, turn.argsort(stable=True)[:, :n]).sort().values
        return type(longer)(*(values.gather(1, chosen) for values in longer))
