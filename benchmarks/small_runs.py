"""The runs of `same_numbers.py` and the commands that are called with each: what a refactoring must not change.

Command lines as a user types them, which `same_numbers.py` completes. `command -> FILES` also compares files that the
command writes.
"""

from __future__ import annotations

from typing import NamedTuple

SENTENCES = """\
Did a bear look for five cows?
At nine o'clock he must cry loudly.
The aunt wanted to sing in the village.
These big mice ran into the house after their clever doctors had trusted queens.
The window is cleaned.
I find a ring because it is very beautiful.
The daughters were small.
Which uncle do my friends like?
"""
REFERENCE = """\
Hat ein Bär fünf Kühe gesucht?
Um neun Uhr muss er laut weinen.
Die Tante wollte im Dorf singen.
Diese großen Mäuse liefen in das Haus.
Das Fenster wird geputzt.
Ich finde einen Ring, weil er sehr schön ist.
Die Töchter waren klein.
Welchen Onkel mögen meine Freunde?
"""
OUTPUTS = REFERENCE.replace("laut", "sehr laut").replace("ein", "kein").replace(".", " .")
NOUN_PHRASES = (
    "(NP (DT the) (NN man))",
    "(NP (DT a) (JJ red) (NN house))",
    "(NP (NP (NNS dogs)) (PP (IN in) (NP (NN rain))))",
)
TREEBANK = [
    f"(S {subject} (VP (VBZ {verb}) {then}) (. .))"
    for subject in NOUN_PHRASES
    for verb in ("sees", "finds", "likes")
    for then in (*NOUN_PHRASES, "(ADVP (RB often))", "(SBAR (IN that) (S (NP (PRP it)) (VP (VBZ sleeps))))")
]
INPUTS = {
    "input.txt": SENTENCES,
    "few.txt": "the old man sees a red house .\na dog sleeps .\nwhere is the small green book ?\n",
    "input.tsv": "a dog sleeps .\tder Hund\nthe old man sees a red house .\tx\n",
    "raw.txt": 'She said, "the dog sleeps." The old man sees a house.\n',
    "reference.txt": REFERENCE,
    "outputs.txt": OUTPUTS,
    "no_outputs.txt": "Das\n" * 8,
    "tagged.txt": "parse: the old man sees a red house .\ntranslate: a dog sleeps .\nparse: a dog sleeps .\n",
    "styles.txt": "a dog sleeps .\n<own> a dog sleeps .\n<other> a dog sleeps .\n",
    "stories.txt": "Wen takes the lamp. Wen goes to the attic. Where is the lamp?\nMia takes the cup. Where is Mia?\n",
    "digits.txt": "1 0 2 3\n3 3 1\n2\n",
    "lexical.jsonl": '{"src": "The aunt wanted to sing.", "phrases": ["Katze", "und"]}\n'
    '{"src": "The dog sleeps.", "prefix": "Die"}\n{"src": "Which uncle do my friends like?"}\n',
    "prefix.jsonl": '{"src": "", "prefix": "der alte"}\n{"src": "", "prefix": "ein Hund"}\n',
    "dev.tsv": "".join(
        f"{src}\t{tgt}\n" for src, tgt in zip(SENTENCES.splitlines(), REFERENCE.splitlines(), strict=True)
    ),
    "mono.de": REFERENCE * 10,
    "pairs.tsv": "the dog sleeps .\tder Hund schläft .\na man sees the house .\tein Mann sieht das Haus .\n" * 30,
    "own.mrg": "\n".join(TREEBANK),
    "other.mrg": "\n".join(reversed(TREEBANK[::7])),
}
"""File -> text, written where the commands run"""


class Run(NamedTuple):
    """A run, and what is done with it."""

    train: str
    """Arguments of s2s-train"""
    commands: tuple[str, ...] = ()
    """Called one after another; s2s-generate and others get `run=` unless it is given"""
    needs: tuple[str, ...] = ()
    """Runs that are trained before it"""
    environment: dict[str, str] = {}  # noqa: RUF012  # never changed


TRANSLATION = (
    "task=translation task.vocab_size=300 task.train={made: {corpus: synthetic, pairs: 400}} task.valid=dev.tsv"
)
TRANSLATE = f"{TRANSLATION} arch=transformer_tiny train.steps=6"
PARSING = "task=parsing task.src_vocab_size=60 task.train=own.mrg task.valid=other.mrg"
PARSE = f"{PARSING} arch=transformer_tiny arch.share_embeddings=target train.steps=6"
TEXT = (
    "s2s-generate search=greedy input=few.txt",
    "s2s-generate input=few.txt nbest=2 format=jsonl fields=[tokens,log_probs]",
)
TREES = (*TEXT, "s2s-generate input=few.txt constrained=false search=greedy")

SEARCHES = (
    "s2s-generate",
    "s2s-generate search=greedy",
    "s2s-generate search.beam=6",
    "s2s-generate search.beam=21 search.stop=first_k",
    "s2s-generate search.beam=6 search.stop=exact nbest=3",
    "s2s-generate search.alpha=1 search.length_penalty=power",
    "s2s-generate search.length_penalty=none",
    "s2s-generate search.ban_unk=true search.max_len_a=0.5 search.max_len_b=3",
    "s2s-generate search.beam=6 search.num_beam_groups=3 nbest=6 format=jsonl",
    "s2s-generate search.beam=4 search.num_beam_groups=2 search.diversity_penalty=2 search.stop=exact",
    "s2s-generate search=sample",
    "s2s-generate search=sample search.temperature=0.7 search.top_k=9 search.top_p=0.9 search.seed=7 nbest=3",
    "s2s-generate tokens=20 buffer_size=2",
    "s2s-generate input=raw.txt max_source=8",
    "s2s-generate input=raw.txt max_source=8 too_long=truncate",
    "s2s-generate input=input.tsv input_format=tsv format=jsonl",
)
CHOICES = (
    "s2s-generate search=sample mbr=chrf candidates=8",
    "s2s-generate search.beam=6 mbr={name: bleu} mbr_weights=model candidates=6",
    "s2s-generate coverage=0.2 candidates=4",
)
CONSTRAINTS = (
    "s2s-generate input=lexical.jsonl search.beam=8 nbest=2 format=jsonl fields=[align,tokens]",
    "s2s-generate input=lexical.jsonl search.num_beam_groups=2 search.no_repeat_ngram_size=2 search.beam=8 "
    "format=jsonl",
    "s2s-generate input=lexical.jsonl search=greedy format=jsonl",
    "s2s-generate input=lexical.jsonl search=sample format=jsonl",
    "s2s-generate search.no_repeat_ngram_size=2 search.min_len=12 bad_words=[der,'ein Hund']",
    "s2s-generate search=sample search.no_repeat_ngram_size=1 search.min_len=5",
)
ALIGNMENTS = (
    "s2s-generate format=aligned",
    "s2s-generate format=aligned replace_unk=true attention_layer=1",
    "s2s-generate input=few.txt format=jsonl fields=[tokens,pieces,log_probs,align]",
    "s2s-generate input=few.txt format=attention",
    "s2s-generate input=few.txt format=figures",
)
ENGINES = (
    "s2s-generate matmul=torch",
    "s2s-generate matmul=onednn",
    "s2s-generate matmul=native",
    "s2s-generate matmul=native search=greedy",
    "s2s-generate precision=bf16",
    "s2s-generate precision=fp16",
    "s2s-generate quantization=bf16",
    "s2s-generate quantization=int8",
    "s2s-generate quantization=int8 search.beam=8 search.num_beam_groups=2",
    "S2S_KERNELS=torch s2s-generate quantization=int8 matmul=auto",
    "s2s-generate workers=2 threads=0",
    "S2S_KERNELS=torch s2s-generate matmul=torch",
    "s2s-generate output=out.txt resume=true -> out.txt",
    "s2s-generate output=shard.txt shard=1/2",
    "s2s-generate output=shard.txt shard=2/2 -> shard.txt",
)
SCORES = (
    "s2s-score task=translation_tiny hyp=outputs.txt ref=reference.txt "
    "metrics=[bleu,{name: bleu_moses, lang: de},chrf,gleu,ter] "
    "format=json per_sentence=true",
    "s2s-score task=translation_tiny hyp=[outputs.txt,no_outputs.txt] ref=reference.txt samples=100",
    "s2s-score model=tiny src=input.txt ref=reference.txt hyp=outputs.txt format=json per_sentence=true",
)
AVERAGES = (
    "s2s-average last=2 output=mean -> runs/tiny/checkpoints/mean/model.safetensors",
    "s2s-generate checkpoint=mean",
    "s2s-generate checkpoint=[last,mean]",
)
EXPORTS = (
    "s2s-export format=ctranslate2 -> runs/tiny/export/ctranslate2/[mst]*",
    "s2s-export format=hf -> runs/tiny/export/hf/*.safetensors",
    "s2s-generate backend=ctranslate2 matmul=auto",
)

ARCHITECTURES = {
    "transformer": (f"{TRANSLATION} arch=transformer_tiny", TEXT),
    "modern": (f"{TRANSLATION} arch=transformer_modern_tiny", TEXT),
    "rnn": (f"{TRANSLATION} arch=rnn_tiny", TEXT),
    "convs2s": (f"{TRANSLATION} arch=convs2s_tiny", TEXT),
    "bytenet": (f"{TRANSLATION} arch=bytenet_tiny", TEXT),
    "mixture": (f"{TRANSLATION} arch=mixture_tiny", TEXT),
    "moe_lstm": (f"{TRANSLATION} arch=moe_lstm_tiny", TEXT),
    "multidecoder": ("task=multitask_tiny arch=multidecoder_tiny", tuple(c.replace("few", "tagged") for c in TEXT)),
    "memory_network": ("task=stories_tiny arch=memory_network_tiny", tuple(c.replace("few", "stories") for c in TEXT)),
    "rnng": (f"{PARSING} arch=rnng_tiny", TREES),
    "neural_gpu": (
        "task=translation task.vocab_size=13 arch=neural_gpu_tiny train.tokens=150 "
        "task.train={a: {corpus: algorithmic, radix: 4, digits: 5, pairs: 300}}",
        tuple(c.replace("few", "digits") + " search.max_len_b=2" for c in TEXT),
    ),
}
"""Name -> arguments of s2s-train, and what is called with the run"""
PRECISIONS = {
    "fp32": "train.steps=4",
    "bf16": "train.steps=4 train.precision=bf16",
    "fp16": "train.steps=20 train.precision=fp16 train.tokens=300",  # the first updates only lower the loss scale
}


def in_all_precisions() -> dict[str, Run]:
    """Every architecture with every arithmetic that a CPU has; what is decoded takes the fp32 master weights."""
    return {
        f"{name}_{precision}": Run(f"{options} {train}", commands)
        for name, (train, commands) in ARCHITECTURES.items()
        for precision, options in PRECISIONS.items()
    }


def variants(common: str, options: dict[str, str], commands: tuple[str, ...]) -> dict[str, Run]:
    """A run for each name, with other options."""
    return {name: Run(f"{common} {changed}", commands) for name, changed in options.items()}


OPTIMISERS = {
    "adadelta": "optim=adadelta schedule=constant schedule.lr=1",
    "adamw": "optim=adamw schedule=cosine schedule.lr=1e-3 schedule.warmup=2",
    "sgd": "optim=sgd schedule=linear schedule.lr=0.1 train.clip=1",
    "inverse_sqrt": "schedule=inverse_sqrt schedule.lr=1e-3 schedule.warmup=2",
}
TRAINING = {
    "bf16_accumulation_ema": "train.micro_tokens=500 train.precision=bf16 train.ema=0.9",
    "accumulation": "train.micro_tokens=500 train.clip=0.5",
    "packed": "train.packed=true",
    "recompute": "train.activations=recompute",
    "torch_products": "train.matmul=torch",
    "onednn_products": "train.matmul=onednn",
    "freeze": "train.freeze=[^encoder]",
    "averaged": "train.average=2 checkpoint.every=2",
    "validated": "valid.every=2 valid.score=true valid.sentences=20 valid.best=bleu checkpoint.every=2 train.average=2 "
    "train.average_of=best",
    "label_smoothing": "objective.definition=t2t objective.eps=0.2 objective.chunk=100",
    "unigram": "task.subword=unigram task.subword_sampling=0.2",
    "sampled_bpe": "task.subword_sampling=0.1 task.joint=false arch.share_embeddings=target",
    "weighted_corpora": "task.train={a: {files: pairs.tsv, weight: 2}, b: {corpus: synthetic, pairs: 90}} "
    "task.vocab_size=90 task.lowercase=true",
}
TRANSFORMERS = {
    "learned_positions": "arch.positions=learned",
    "t2t_positions": "arch.positions=sinusoid_t2t arch.norm=pre",
    "relative_positions": "arch.positions=relative arch.relative_distance=4",
    "rotary_positions": "arch.positions=rotary arch.n_kv_heads=2",
    "no_positions": "arch.positions=none arch.activation=gelu",
    "additive_attention": "arch.attention_score=additive",
    "dot_attention": "arch.attention_score=dot arch.d_k=8 arch.d_v=8",
    "restricted_attention": "arch.self_attention=restricted arch.neighbourhood=5",
    "math_attention": "arch.attention=math arch.attention_dropout=0.1 arch.relu_dropout=0.1",
    "word_dropout": "arch.src_word_dropout=0.1 arch.tgt_word_dropout=0.1 arch.decoder_layer_drop=0.3",
    "separate_embeddings": "arch.share_embeddings=none",
}
RECURRENT = {
    "bahdanau": "arch=bahdanau",
    "luong": "arch=luong",
    "gnmt": "arch=gnmt",
    "sutskever": "arch=sutskever",
    "deep_att": "arch=deep_att",
    "factorised_lstm": "arch=rnn_tiny arch.d_factor=16 arch.d_projection=64",
    "grouped_lstm": "arch=rnn_tiny arch.n_groups=2",
}
PARSERS = {
    "parsing_vinyals": "task.linear=vinyals task.unary=same",
    "parsing_brackets": "task.linear=brackets task.tags=predict",
    "parsing_in_order": "task.linear=in_order task.unary=join",
    "parsing_guide_words": "task.linear=in_order arch.guide=words",
    "parsing_guide_stack": "task.linear=in_order arch.guide=stack arch.cross_attention=none",
    "parsing_parts": "task.words=parts arch.words=pooled task.word_labels=tags arch.label_loss=0.5",
    "parsing_word_ends": "task.word_ends=number",
}
OBJECTIVES = {
    "rdrop": "objective=rdrop_translation",
    "simcut": "objective=simcut_translation",
    "distill": "objective=distill objective.teachers=[tiny] objective.weight=0.7 objective.temperature=2",
    "distill_only": "objective=distill_only objective.teachers=[tiny]",
    "risk": "objective=risk_tuning objective.n=4 train.init_from=tiny train.tokens=300",
    "gnmt_rl": "objective=gnmt_rl_tuning objective.n=4 train.init_from=tiny train.tokens=300",
    "fine_tuned": "train.init_from=tiny schedule=constant schedule.lr=1e-4 schedule.warmup=0",
    "other_vocabulary": "train.init_from=tiny train.init_vocab=new task.vocab_size=200",
    "lora": "arch=lora arch.of=transformer_tiny arch.match=attention train.init_from=tiny",
    **{
        f"lora_{precision}": f"arch=lora arch.of=transformer_tiny train.init_from=tiny {options}"
        for precision, options in PRECISIONS.items()
    },
}
"""Runs that begin with the run `tiny` or take it as their teacher, and other objectives"""
RANKS = {
    "two_ranks": "train.strategy=ddp",
    "two_shards": "train.strategy=fsdp",
    "two_expert_ranks": "arch=mixture_tiny train.strategy=experts",
}
LANGUAGE_MODEL = "task=language_model task.tokenizer=tiny task.train=mono.de arch=transformer_lm_tiny"
SMALL_RECURRENT = f"{TRANSLATION} train.steps=3 train.tokens=600 arch.d_model=32 arch.d_embedding=32"

RUNS: dict[str, Run] = {
    "tiny": Run(
        f"{TRANSLATION} arch=transformer_tiny arch.dropout=0.01 schedule=cosine schedule.lr=4e-3 "
        "schedule.warmup=30 train.steps=200 checkpoint.every=100 valid.every=100 valid.score=true valid.sentences=20",
        (*SEARCHES, *CHOICES, *CONSTRAINTS, *ALIGNMENTS, *ENGINES, *SCORES, *AVERAGES, *EXPORTS),
    ),
    **in_all_precisions(),
    "default_corpus": Run(
        "task=translation_tiny arch=transformer_tiny train.steps=6 valid.sentences=10 valid.score=true"
    ),
    **variants(TRANSLATE, OPTIMISERS, ()),
    **variants(TRANSLATE, TRAINING, TEXT[:1]),
    "torch_kernels": Run(TRANSLATE, environment={"S2S_KERNELS": "torch"}),
    **variants(TRANSLATE, TRANSFORMERS, TEXT),
    **variants(SMALL_RECURRENT, RECURRENT, TEXT),
    **{name: Run(f"{TRANSLATE} {options}", TEXT[:1], ("tiny",)) for name, options in OBJECTIVES.items()},
    "second_lora": Run(f"{TRANSLATE} train.init_from=lora", TEXT[:1], ("tiny", "lora")),
    **variants(f"{TRANSLATE} train.devices=2", RANKS, TEXT[:1]),
    **{
        f"language_model_{precision}": Run(
            f"{LANGUAGE_MODEL} {options}",
            (
                f"s2s-generate run=tiny fusion=language_model_{precision} fusion_weight=0.4",
                "s2s-generate input=prefix.jsonl format=jsonl",
                "s2s-generate search=sample input=few.txt nbest=3",
            ),
            ("tiny",),
        )
        for precision, options in PRECISIONS.items()
    },
    "ensemble": Run(
        f"{TRANSLATE} arch.d_model=32 seed=4",
        (
            "s2s-generate run=[tiny,ensemble]",
            "s2s-generate run=[tiny,ensemble] search=greedy format=aligned",
            "s2s-generate run=[tiny,ensemble] input=lexical.jsonl search.beam=8 format=jsonl",
            "s2s-score model=[tiny,ensemble] src=input.txt ref=reference.txt format=json",
        ),
        ("tiny",),
    ),
    "multitask": Run(
        "task=multitask_tiny arch=multidecoder_tiny train.steps=6 task.ratio={parse: 0.5} valid.every=6 "
        "valid.score=true valid.sentences=10",
        ("s2s-generate input=tagged.txt format=jsonl nbest=2",),
    ),
    "parsing": Run(
        "task=parsing_tiny arch=transformer_tiny arch.share_embeddings=target "
        "train.steps=6 valid.every=6 valid.score=true valid.sentences=10",
        (
            *TREES,
            "s2s-generate input=raw.txt raw=true format=pretty",
            "s2s-generate input=few.txt format=svg",
            "s2s-generate input=few.txt format=html",
            "s2s-generate input=few.txt output=trees.mrg -> trees.mrg",
            "s2s-score task=parsing hyp=trees.mrg ref=trees.mrg format=json",
            "s2s-pcfg train task=parsing_tiny output=grammar.npz splits=1 iterations=3 -> grammar.npz",
            "s2s-pcfg parse grammar=grammar.npz input=few.txt output=parsed.mrg -> parsed.mrg",
        ),
    ),
    **variants(PARSE, PARSERS, TREES),
    "parsing_styles": Run(
        f"{PARSE} task.train={{own: own.mrg, other: {{files: [other.mrg], weight: 0.5}}}} task.style=own "
        "task.words=parts arch.words=pooled",
        ("s2s-generate input=styles.txt",),
    ),
    "stories": Run(
        "task=stories_tiny arch=memory_network_tiny arch.encoding=bag arch.tying=layerwise arch.noise=0.1 "
        "train.steps=6 valid.every=6 valid.score=true",
        ("s2s-generate input=stories.txt format=jsonl nbest=2",),
    ),
}
"""Name -> run, each after the runs that it needs"""
