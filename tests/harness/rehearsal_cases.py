"""What is rehearsed on the device of `pretend_device`: runs that are trained and decoded there and on the CPU.

How often the host may read from the device stands in `Case.reads` and `Case.step_reads`, with the reason if it is more
than once in an update, or than once in a decoding step.
"""

from __future__ import annotations

__all__ = ["GROUPS", "N_UPDATES", "TRAINING", "Case"]

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

N_UPDATES = 2
TRAINING = [
    *("recipe=none", "optim=sgd", "schedule=constant", "schedule.lr=0.5", "schedule.warmup=1", "data.workers=1"),
    *("train.threads=1", "train.tokens=80", f"train.steps={N_UPDATES}", "train.check=false", "valid.sentences=2"),
    *("log.tensorboard=false", "valid.every=2", "--quiet"),
]
TRANSLATION = (
    *("task=translation", "task.train=[../a.en,../a.de]", "task.valid=[../a.en,../a.de]", "task.vocab_size=40"),
    "search.max_len_b=6",
)
PARSING = (
    *("task=parsing", "task.train=../trees", "task.valid=../trees", "task.src_vocab_size=40", "data.max_len=40"),
    *("search.max_len_b=4", "search.beam=2"),
)
LANGUAGE = ("task=language_model", "task.tokenizer=plain", "task.train=../a.de")
NOTHING = "arch.dropout=0"
SIZES = ["arch.d_model=8", "arch.d_ff=8", "arch.n_heads=2", "arch.n_encoder_layers=1", "arch.n_decoder_layers=1"]
TINY = ["arch=transformer_tiny", *SIZES, NOTHING]
RNN = ["arch.d_model=8", NOTHING]
CERTAIN = ["arch.noisy=false", "arch.load=0"]
SAMPLED = ["objective.n=2", "objective.search={name: sample, max_len_b: 4}"]
PLAIN = "run=plain"
EXPERTS = "how many tokens each expert has, once in each layer: experts are modules of any kind"


@dataclass(frozen=True)
class Case:
    """A run that is trained, and then decoded, with random numbers of neither."""

    train: Sequence[str] = ()
    """Options of s2s-train; (): nothing is trained"""
    generate: Sequence[Sequence[str]] = ((),)
    """Options of s2s-generate, for each time that it is called"""
    task: Sequence[str] = TRANSLATION
    inputs: str = "in"
    tolerance: float = 1e-5
    """Of a weight"""
    reads: float = 1 / N_UPDATES
    """Reads by the host allowed per update, beside those of searches; by default one, when the log shows the last"""
    step_reads: float = 0
    """The same per decoding step, beside those that every search may have"""
    why: str = ""
    """Why there are more"""
    validation_searches: bool = True
    """Whether outputs are searched for in validation, or by the objective, which then reads"""
    float64: bool = True
    """Whether the device has it"""
    captured: Sequence[str] = ()
    """What is captured in graphs: training, decoding"""
    devices: Sequence[str] = ()
    """Of each update of the run on the device, if they are not all made there"""


TRANSFORMERS = {
    "transformer": Case(TINY),
    "modern": Case(["arch=transformer_modern_tiny", *SIZES, NOTHING]),
    "no float64": Case(TINY, float64=False),
    "learned positions": Case([*TINY, "arch.positions=learned"]),
    "relative bias": Case([*TINY, "arch.positions=relative_bias"]),
    "recurrent decoder": Case([*TINY, "arch.decoder_self_attention=ssru"]),
    "bf16": Case([*TINY, "train.precision=bf16"], [["precision=bf16"]], tolerance=2e-2),
    "fp16": Case([*TINY, "train.precision=fp16"], [["precision=fp16"]], tolerance=2e-2),
    "language model": Case(["arch=transformer_lm_tiny", NOTHING], (), LANGUAGE, validation_searches=False),
    "parsing": Case([*TINY, "arch.share_embeddings=target"], task=PARSING),
}
OTHERS = {
    "rnn": Case(["arch=rnn_tiny", *RNN]),
    "gnmt": Case(["arch=gnmt", *RNN]),
    "bahdanau": Case(["arch=bahdanau", *RNN]),
    "luong": Case(["arch=luong", *RNN]),
    "bytenet": Case(["arch=bytenet_tiny", "arch.d_model=8"]),
    "convs2s": Case(["arch=convs2s_tiny"]),
    "neural_gpu": Case(["arch=neural_gpu_tiny", "arch.d_model=8"]),
    "mixture": Case(["arch=mixture_tiny", "arch.of.dropout=0", *CERTAIN], reads=2.5, why=EXPERTS),
    "moe_lstm": Case(["arch=moe_lstm_tiny", NOTHING, *CERTAIN], reads=2.5, why=EXPERTS),
    "memory_network": Case(["arch=memory_network_tiny"], (), ("task=stories_tiny", "task.stories=40")),
}
SLOW = {
    "multidecoder": Case(
        ["arch=multidecoder_tiny", "arch.of.dropout=0"],
        task=("task=multitask_tiny",),
        inputs="tagged",
        reads=1.5,
        step_reads=1,
        why="project gets positions of any kinds, and the constraint states of any sentences",
    ),
    "rnng": Case(
        ["arch=rnng_tiny", NOTHING], (), PARSING, step_reads=1, why="which brackets close, of how many children"
    ),
}


def learning(*options: str, **more: Any) -> Case:
    """Another way to train the first of `TRANSFORMERS`, whose search is that of its own case."""
    return Case([*TINY, "valid.score=false", *options], (), **{"validation_searches": False, **more})


LEARNING = {
    "rdrop": learning("objective=rdrop"),
    "simcut": learning("objective=simcut", "objective.cut=0"),
    "distill": learning("objective=distill", "objective.teachers=[plain]"),
    "risk": learning("objective=risk", *SAMPLED, validation_searches=True),
    "gnmt_rl": learning("objective=gnmt_rl", *SAMPLED, validation_searches=True),
    "guided_alignment": learning("objective=guided_alignment"),
    "average of weights": Case([*TINY, "train.ema=0.9"]),
    "adamw": learning("optim=adamw", "schedule.lr=1e-4", tolerance=3e-4),
    "adadelta": learning(
        "optim=adadelta", "schedule.lr=0.1", tolerance=3e-4, reads=1, why="no tensor can stop the optimizer"
    ),
    "momentum": learning("optim.momentum=0.9", reads=1, why="the same of a first step"),
    "fp16 adadelta": learning(
        "optim=adadelta", "schedule.lr=0.1", "train.precision=fp16", tolerance=2e-2, reads=1, why="the same"
    ),
    "micro-batches": learning("train.micro_tokens=40"),
    "packed": learning("train.packed=true"),
    "continued there": learning(devices=["cpu", "pretend"], reads=1, why="the last of a command"),
    "continued here": learning(devices=["pretend", "cpu"], reads=1, why="the last of a command"),
    "lora": Case(["train.init_from=plain", "arch=lora"]),
    "frozen": learning("train.init_from=plain", "train.freeze=[encoder]"),
}
DECODING = {
    "searches": Case(
        generate=[
            [PLAIN, "search=greedy"],
            [PLAIN, "search.beam=3", "nbest=3", "format=tsv"],
            [PLAIN, "search.beam=4", "search.num_beam_groups=2"],
            [PLAIN, "search=sample", "search.seed=1"],
            [PLAIN, "search.min_len=3", "search.no_repeat_ngram_size=2", "bad_words=[hund]"],
            [PLAIN, "mbr=chrf"],
            ["run=[plain,plain]"],
            [PLAIN, "fusion=lm"],
            [PLAIN, "transforms=[{name: bias, texts: [kater], bias: 2}]"],
            [PLAIN, "tokens=12"],
        ],
    ),
    "attention": Case(
        generate=[[PLAIN, "coverage=0.2", "replace_unk=true", "format=aligned"], [PLAIN, "format=attention"]],
    ),
    "phrases": Case(
        generate=[[PLAIN, "input=../wishes.jsonl", "format=jsonl"]],
        step_reads=1,
        why="the host makes the states of phrases, for which it reads the candidates",
    ),
    "captured": Case(
        TINY,
        [(), ["search.beam=4", "nbest=2", "format=tsv"], ["search=sample", "search.seed=1"]],
        captured=("training", "decoding"),
        tolerance=0.0,
    ),
}
SLOW |= {
    "captured adamw": Case(
        [*TINY, "optim=adamw", "schedule.lr=1e-4", "train.ema=0.9"],
        [["search=greedy"], ["precision=bf16"]],
        captured=("training", "decoding"),
        tolerance=1e-9,  # a learning rate in a tensor is rounded to fp32
    ),
    "captured modern": Case(
        ["arch=transformer_modern_tiny", *SIZES, NOTHING], captured=("training", "decoding"), tolerance=0.0
    ),
    "captured convs2s": Case(["arch=convs2s_tiny"], captured=["decoding"]),
}
GROUPS = {
    "transformers": TRANSFORMERS,
    "others": OTHERS,
    "learning": LEARNING,
    "decoding": DECODING,
    "slow": SLOW,
}
