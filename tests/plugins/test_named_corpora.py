"""Corpora by name: what a word means, recipes on made-up files with the same members, and what is refused."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.made_up_archives import corpus_of_made_up_files, tar_of, zip_of
from s2s import ConfigError, DataError, Example, Rejected, load_plugins
from s2s.data.corpora import Corpora
from s2s.data.corpus_options import parse_corpora
from s2s.data.pair_files import PAIR_FILES
from s2s_named_corpora import CatalogueConfig, HubConfig, LibreOfficeConfig, OpusConfig, SacrebleuConfig
from s2s_named_corpora.archives import copy_members
from s2s_named_corpora.catalogue import load_catalogue
from s2s_named_corpora.corpus import CatalogueCorpus, OpusCorpus
from s2s_named_corpora.downloads import downloads_folder
from s2s_named_corpora.hub import HubCorpus
from s2s_named_corpora.libreoffice import LibreOfficeHelp
from s2s_named_corpora.names import Names
from s2s_named_corpora.remote_file import Expected, RemoteFile
from s2s_named_corpora.sacrebleu_sets import SacrebleuCorpus

if TYPE_CHECKING:
    from collections.abc import Iterable

N = 250
"""Lines of each made-up text"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return downloads_folder()


def kept(examples: Iterable[Example | Rejected]) -> list[tuple[str, str]]:
    return [(one.src, one.tgt) for one in examples if isinstance(one, Example)]


# What the recipes are, as the papers' scripts name them, written out a second time.
EUROPARL, CRAWL = "europarl-v7.{}-en", "commoncrawl.{}-en"
FRENCH = [EUROPARL, CRAWL, "undoc.2000.{}-en", "news-commentary-v9.{}-en", "giga-fren.release2.fixed"]
RECIPES = {
    ("wmt14_en_de", "paper"): ([EUROPARL, CRAWL, "news-commentary-v11.{}-en"], 0),
    ("wmt14_en_de", "fairseq"): ([EUROPARL, CRAWL, "news-commentary-v12.{}-en"], 100),
    ("wmt14_en_de", "icml17"): ([EUROPARL, CRAWL, "news-commentary-v9.{}-en"], 100),
    ("wmt14_en_de", "t2t"): (["news-commentary-v13.{}-en", CRAWL, EUROPARL], 0),
    ("wmt14_en_fr", "paper"): (FRENCH, 0),
    ("wmt14_en_fr", "fairseq"): (FRENCH, 1333),
}


@pytest.mark.parametrize(("name", "recipe"), RECIPES, ids=lambda part: part)
def test_a_recipe_has_its_pairs_in_its_order(name: str, recipe: str, tmp_path: Path) -> None:
    parts, every = RECIPES[name, recipe]
    language, end = name[-2:], ".gz" if name == "wmt14_en_fr" else ""
    expected = [
        (f"en {file}.en{end * ('giga' in file)} {i}", f"{language} {file}.{language}{end * ('giga' in file)} {i}")
        for file in (part.format(language) for part in parts)
        for i in range(1, N + 1)
    ]
    corpus = corpus_of_made_up_files(name, recipe, tmp_path, N)
    held_out = [pair for number, pair in enumerate(expected, 1) if every and number % every == 0]
    assert kept(corpus.examples("train")) == [pair for pair in expected if pair not in held_out]
    if every and held_out:
        assert kept(corpus.examples("valid")) == held_out
    else:
        with pytest.raises(DataError, match="has no text for test, only for train"):
            list(corpus.examples("test"))


def test_every_recipe_is_tested() -> None:
    entries = load_catalogue().entries
    assert {(name, recipe) for name in ("wmt14_en_de", "wmt14_en_fr") for recipe in entries[name].recipes} == {*RECIPES}


def test_the_other_direction_is_the_same_pairs_turned(tmp_path: Path) -> None:
    turned = corpus_of_made_up_files("wmt14_en_de", "paper", tmp_path, 3, src_lang="de", tgt_lang="en")
    straight = corpus_of_made_up_files("wmt14_en_de", "paper", tmp_path, 3)
    assert [(tgt, src) for src, tgt in kept(turned.examples("train"))] == kept(straight.examples("train"))
    assert turned.version("train") != straight.version("train")


def test_counts_other_than_the_catalogues_are_an_error_unless_told(tmp_path: Path) -> None:
    corpus = corpus_of_made_up_files("wmt14_en_de", "t2t", tmp_path, 5)
    for texts in corpus.recipe.splits.values():
        for text in texts:
            object.__setattr__(text, "lines", 6)
    with pytest.raises(DataError, match=r"5 lines in .*, expected 6: .*count=false"):
        list(corpus.examples("train"))
    corpus.config.count = False
    assert len(kept(corpus.examples("train"))) == 15


def test_sides_of_unequal_length_are_an_error(tmp_path: Path) -> None:
    corpus = corpus_of_made_up_files("wmt14_en_de", "t2t", tmp_path, 5)
    corpus.config.count = False
    _, text, _ = corpus.recipe.splits["train"]
    members = {text.sides["en"].member: b"one\ntwo\n", text.sides["de"].member: b"eins\n"}
    data = tar_of(members)
    (tmp_path / "short.tgz").write_bytes(data)
    short = RemoteFile(urls=((tmp_path / "short.tgz").as_uri(),), expected=Expected(hashlib.sha256(data).hexdigest()))
    object.__setattr__(text, "sides", {side: source._replace(file=short) for side, source in text.sides.items()})
    with pytest.raises(DataError, match="not parallel"):
        list(corpus.examples("train"))


def test_what_is_there_is_not_unpacked_again_and_needs_no_archive(tmp_path: Path, cache: Path) -> None:
    corpus = corpus_of_made_up_files("wmt14_en_de", "t2t", tmp_path, 5, offline=False)
    first, version = kept(corpus.examples("train")), corpus.version("train")
    for path in (cache / "files").glob("*"):
        path.unlink()
    again = corpus_of_made_up_files("wmt14_en_de", "t2t", tmp_path, 5, offline=True)
    assert kept(again.examples("train")) == first
    assert again.version("train") == version


def test_what_a_killed_process_left_half_unpacked_is_written_again(tmp_path: Path, cache: Path) -> None:
    corpus = corpus_of_made_up_files("wmt14_en_de", "t2t", tmp_path, 5)
    first = kept(corpus.examples("train"))
    for path in [path for path in (cache / "texts").iterdir() if path.suffix in (".en", ".de")]:
        path.rename(path.with_name(f"{path.name}.part"))
        path.with_name(f"{path.name}.part").write_bytes(b"half")
    assert kept(corpus.examples("train")) == first
    assert not list((cache / "texts").glob("*.part"))


def test_pending_names_bytes_licence_and_citation_until_all_is_there(tmp_path: Path) -> None:
    corpus = corpus_of_made_up_files("wmt14_en_de", "t2t", tmp_path, 5)
    total = sum(file.expected.n_bytes or 0 for file in corpus.remote_files("train"))
    lines = corpus.pending("train")
    assert f"to download: {total:,} bytes in 3 files" in lines[0]
    assert any("licence: for research" in line for line in lines)
    assert any("cite: Bojar" in line for line in lines)
    list(corpus.examples("train"))
    assert corpus.pending("train") == []


def test_licences_can_be_refused(tmp_path: Path) -> None:
    corpus = corpus_of_made_up_files("wmt14_en_de", "t2t", tmp_path, 5, licences=["CC-BY-4.0"])
    for ask in (lambda: corpus.pending("train"), lambda: list(corpus.examples("train"))):
        with pytest.raises(DataError, match="licences="):
            ask()


def test_punctuation_is_normalised_as_mosess_scripts_do(tmp_path: Path) -> None:
    corpus = corpus_of_made_up_files("wmt14_en_de", "fairseq", tmp_path, 1)
    (text, *_) = corpus.recipe.splits["train"]
    data = tar_of({text.sides["en"].member: "“A”\u0007 …\n".encode(), text.sides["de"].member: "„B“\n".encode()})
    (tmp_path / "quotes.tgz").write_bytes(data)
    file = RemoteFile(urls=((tmp_path / "quotes.tgz").as_uri(),), expected=Expected(hashlib.sha256(data).hexdigest()))
    object.__setattr__(text, "sides", {side: source._replace(file=file) for side, source in text.sides.items()})
    assert kept(corpus.examples("train"))[0] == ('"A" ...', '"B"')


def test_the_catalogue_is_whole() -> None:
    """Hashes have their length, addresses are https first, and nothing is without licence and citation."""
    catalogue = load_catalogue()
    for name, entry in catalogue.entries.items():
        assert entry.licence, name
        assert entry.citation, name
        for recipe in entry.recipes.values():
            for text in (text for texts in recipe.splits.values() for text in texts):
                assert bool(text.table) != (len(text.sides) >= 2)
    for files in catalogue.files.values():
        for name, file in files.items():
            assert file.urls[0].startswith("https://"), name
            assert not file.expected.sha256 or re.fullmatch("[0-9a-f]{64}", file.expected.sha256)
            assert file.expected.is_hashed or len(file.urls) == 1, "http without a hash would be refused"


MEANINGS: dict[str, dict[str, Any]] = {
    "wmt14_en_de": {"corpus": "catalogue", "of": "wmt14_en_de", "defaults": {"src_lang": "en", "tgt_lang": "de"}},
    "sigmorphon2021/gre": {"corpus": "catalogue", "of": "sigmorphon2021/gre", "defaults": {}},
    "newstest2013": {"corpus": "sacrebleu", "of": "wmt13", "defaults": {}},
    "newstest2014": {"corpus": "sacrebleu", "of": "wmt14/full", "defaults": {}},
    "newstest2019": {"corpus": "sacrebleu", "of": "wmt19", "defaults": {}},
    "sacrebleu:iwslt17": {"corpus": "sacrebleu", "of": "iwslt17", "defaults": {}},
    "tatoeba": {"corpus": "opus", "of": "Tatoeba/v2023-04-12", "defaults": {}},
    "opus:Europarl/v8/de-en": {
        "corpus": "opus",
        "of": "Europarl/v8/de-en",
        "defaults": {"src_lang": "de", "tgt_lang": "en"},
    },
    "hf:owner/name@abc": {"corpus": "hf", "of": "owner/name@abc", "defaults": {}},
}


@pytest.mark.parametrize("name", MEANINGS)
def test_a_name_means_options_of_a_registered_corpus(name: str) -> None:
    names = Names(CatalogueConfig())
    assert name in names
    assert dict(names[name]) == MEANINGS[name]


@pytest.mark.parametrize("word", ["train.en", "corpus", "opus", "hf:", "data/train.de.gz", "ftp:x", "newstest14"])
def test_other_words_are_no_names(word: str) -> None:
    assert word not in Names(CatalogueConfig())


def parsed(value: Any) -> list[tuple[str, str, dict[str, Any]]]:
    corpora = Corpora(load_plugins().registry, lambda _: [], {})
    return [
        (one.name, one.corpus, dict(one.options))
        for one in parse_corpora(value, "task.train", PAIR_FILES, corpora.names)
    ]


WMT = ("wmt14_en_de", "catalogue", {"of": "wmt14_en_de"})


def test_a_plain_word_a_mapping_and_a_list_name_corpora() -> None:
    assert parsed("wmt14_en_de") == [WMT]
    assert parsed({"corpus": "wmt14_en_de", "recipe": "fairseq"}) == [
        ("wmt14_en_de", "catalogue", {"of": "wmt14_en_de", "recipe": "fairseq"})
    ]
    assert parsed(["wmt14_en_de", "multi30k"]) == [WMT, ("multi30k", "catalogue", {"of": "multi30k"})]
    assert parsed({"a": "wmt14_en_de", "b": ["x.en", "x.de"]}) == [
        ("a", *WMT[1:]),
        ("b", "parallel", {"files": ["x.en", "x.de"]}),
    ]
    assert parsed("opus:Tatoeba/v2023-04-12")[0][0] == "opus-Tatoeba-v2023-04-12"
    assert parsed("synthetic") == [("synthetic", "synthetic", {})]


def test_a_file_comes_before_a_corpus_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("wmt14_en_de").write_text("a\tb\n")
    assert parsed("wmt14_en_de") == [("wmt14_en_de", "parallel", {"files": ["wmt14_en_de"]})]


def test_a_misspelt_name_is_told_in_either_form(capsys: pytest.CaptureFixture[str]) -> None:
    from s2s.cli.train import main

    for given in ("wmt14_en_dee", "{corpus: wmt14_en_dee}"):
        assert main(["task=translation", f"task.train={given}"]) == 2
        said = capsys.readouterr().err
        assert "Did you mean 'wmt14_en_de'?" in said
        assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [("opus:JW300/v1", "withdrawn"), ("sigmorphon2021", "give one of sigmorphon2021/ady")],
)
def test_a_name_that_cannot_be_used_says_what_to_give(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Names(CatalogueConfig())[name]


def test_opus_is_one_zip_for_both_directions_and_has_to_be_pinned() -> None:
    one = OpusCorpus(OpusConfig(of="Tatoeba/v2023-04-12", src_lang="en", tgt_lang="de"))
    other = OpusCorpus(OpusConfig(of="Tatoeba/v2023-04-12/de-en"))
    assert one.remote_files("train") == other.remote_files("train")
    assert one.remote_files("train")[0].urls[0].endswith("/OPUS-Tatoeba/v2023-04-12/moses/de-en.txt.zip")
    assert any("pin=true" in line for line in one.pending("train"))
    with pytest.raises(ConfigError, match="has no en-fr"):
        OpusCorpus(OpusConfig(of="Tatoeba/v2023-04-12/de-en", src_lang="en", tgt_lang="fr"))
    for wrong in ("Tatoeba", "../x/v1", "a/b/c/d", "Tatoeba/v1/de"):
        with pytest.raises(ConfigError, match="expected opus:"):
            OpusCorpus(OpusConfig(of=wrong, src_lang="en", tgt_lang="de"))


def place(corpus: Any, data: bytes, number: int = 0) -> None:
    """Put a file where it would be after its download."""
    path = corpus.downloads.path(corpus.remote_files("train")[number])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def test_opus_is_read_from_its_zip() -> None:
    corpus = OpusCorpus(OpusConfig(of="Tatoeba/v1", src_lang="en", tgt_lang="de"))
    place(corpus, zip_of({"LICENSE": b"x", "Tatoeba.de-en.de": b"eins\nzwei\n", "Tatoeba.de-en.en": b"one\ntwo\n"}))
    assert kept(corpus.examples("valid")) == [("one", "eins"), ("two", "zwei")]


SGML = (
    '<refset>\n<doc docid="a" genre="news" origlang="en">\n'
    '<seg id="1">{0} one &amp; </seg>\n<seg id="2"> {0}  two</seg>\n'
)


def test_a_test_set_is_what_sacrebleu_reads(tmp_path: Path) -> None:
    """The second truth is sacreBLEU's own cleaning of a segment."""
    from sacrebleu.dataset.base import Dataset

    corpus = SacrebleuCorpus(SacrebleuConfig(of="wmt14/full", src_lang="en", tgt_lang="de"))
    members = corpus.dataset.langpairs["en-de"]
    place(corpus, tar_of({name: SGML.format(name[-6:-4]).encode() for name in members}))
    cleaned = [
        tuple(Dataset._clean(text.format(language)) for language in ("en", "de"))
        for text in ("{} one &amp; ", " {}  two")
    ]
    assert kept(corpus.examples("test")) == cleaned
    assert kept(corpus.examples("valid")) == cleaned


def test_every_test_set_of_sacrebleu_can_be_named() -> None:
    """All have hashes, and members whose names can be unpacked."""
    from sacrebleu.dataset import DATASETS

    for name, dataset in DATASETS.items():
        for direction in dataset.langpairs:
            src, _, tgt = direction.partition("-")
            corpus = SacrebleuCorpus(SacrebleuConfig(of=name, src_lang=src, tgt_lang=tgt))
            assert all(file.expected.is_hashed for file in corpus.remote_files("test")), name
            assert all(file.urls[0].startswith("https://") for file in corpus.remote_files("test")), name
            assert corpus._members()
        assert corpus.citation


def test_a_test_set_in_xml_and_one_in_a_table_are_read() -> None:
    xml = (
        '<dataset id="x"><doc id="d" origlang="en"><src lang="en"><p><seg id="1">one</seg></p></src>'
        '<ref lang="de" translator="A"><p><seg id="1">eins</seg></p></ref></doc></dataset>'
    )
    corpus = SacrebleuCorpus(SacrebleuConfig(of="wmt21", src_lang="en", tgt_lang="de"))
    place(corpus, tar_of({"test/newstest2021.en-de.xml": xml.encode()}))
    assert kept(corpus.examples("test")) == [("one", "eins")]
    table = SacrebleuCorpus(SacrebleuConfig(of="mtnt2019", src_lang="en", tgt_lang="fr"))
    place(table, tar_of({"MTNT2019/en-fr.final.tsv": b"1\t2\tone\tun\n"}))
    assert kept(table.examples("test")) == [("one", "un")]


def test_a_test_set_of_several_files_finds_each(tmp_path: Path) -> None:
    corpus = SacrebleuCorpus(SacrebleuConfig(of="wmt19/google/ar", src_lang="en", tgt_lang="de"))
    place(corpus, tar_of({"sgm/newstest2019-ende-src.en.sgm": SGML.format("x").encode()}), 0)
    place(corpus, b"eins\nzwei\n", 1)
    assert [tgt for _, tgt in kept(corpus.examples("test"))] == ["eins", "zwei"]


def test_a_direction_that_a_set_does_not_have_lists_the_others() -> None:
    corpus = SacrebleuCorpus(SacrebleuConfig(of="wmt24", src_lang="de", tgt_lang="fr"))
    with pytest.raises(ConfigError, match="has no de-fr, but cs-uk, en-cs"):
        corpus.remote_files("test")
    with pytest.raises(ConfigError, match=r"no such test set of sacreBLEU\. Did you mean 'wmt24'"):
        SacrebleuCorpus(SacrebleuConfig(of="wmt244"))


COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The library's cache with one snapshot."""
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    snapshot = tmp_path / "hub" / "datasets--owner--pairs" / "snapshots" / COMMIT
    (snapshot / "de-en").mkdir(parents=True)
    (snapshot / "README.md").write_text("---\nlicense: cc-by-4.0\n---\n# Pairs\n")
    for split in ("train", "validation"):
        row = {"translation": {"de": f"{split} eins", "en": f"{split} one"}, "id": 7}
        (snapshot / "de-en" / f"{split}-00000.jsonl").write_text(json.dumps(row) + "\n")
    return snapshot


def hub_corpus(**options: Any) -> HubCorpus:
    given = {"of": f"owner/pairs@{COMMIT}", "folder": "de-en", "offline": True, "src_lang": "en", "tgt_lang": "de"}
    return HubCorpus(HubConfig(**{**given, **options}))


def test_a_data_set_of_the_hub_is_read_by_split_with_fields(hub: Path) -> None:
    corpus = hub_corpus(licences=["cc-by-4.0"])
    assert list(corpus.examples("valid")) == [Example("validation one", "validation eins", {"id": 7})]
    assert kept(hub_corpus(split="train").examples("valid")) == [("train one", "train eins")]
    turned = hub_corpus(columns=["translation.de", "translation.en"])
    assert kept(turned.examples("train")) == [("train eins", "train one")]
    with pytest.raises(DataError, match="licences="):
        list(hub_corpus(licences=["MIT"]).examples("train"))


def test_a_data_set_of_the_hub_needs_a_commit(hub: Path) -> None:
    for of in ("owner/pairs", "owner/pairs@main"):
        with pytest.raises(ConfigError, match="a revision is a commit of 40 digits"):
            hub_corpus(of=of)
    with pytest.raises(ConfigError, match="expected hf:OWNER/NAME@REVISION"):
        hub_corpus(of="pairs")
    with pytest.raises(DataError, match="owner/others is not complete in the cache, and offline=true"):
        list(hub_corpus(of=f"owner/others@{COMMIT}").examples("train"))


PAGE = (
    '<html><body><h1 id="hd_id1" dir="auto"><a name="x"></a>{0} title</h1><p id="par_id2">{0} <span class="emph">bold'
    '</span> &amp; <span class="switchinline"><span class="MAC" id="MACx">Command</span><span id="defaultx">{1}</span>'
    '</span> text<br>end</p><p id="par_id3">42</p><p>no id</p></body></html>'
)


def help_folder(folder: Path) -> Path:
    """Pages of two languages as they are installed."""
    for language, key in (("en-US", "Ctrl"), ("de", "Strg")):
        pages = folder / language / "text" / "swriter"
        pages.mkdir(parents=True)
        for number in range(60):
            (pages / f"{number}.html").write_text(PAGE.format(f"{language} {number}", key))
    return folder


def libreoffice(folder: Path, **options: Any) -> LibreOfficeHelp:
    return LibreOfficeHelp(LibreOfficeConfig(packages=str(folder), src_lang="en", tgt_lang="de", **options))


def test_the_help_of_libreoffice_is_aligned_by_ids_and_divided_by_pages(tmp_path: Path) -> None:
    corpus = libreoffice(help_folder(tmp_path / "help"))
    by_split = {split: list(corpus.examples(split)) for split in ("train", "valid", "test")}
    pages = [{one.fields["document"] for one in found if isinstance(one, Example)} for found in by_split.values()]
    assert sum(map(len, pages)) == len(set().union(*pages)) == 60
    number = by_split["train"][0].fields["document"].split("/")[1].removesuffix(".html")  # type: ignore[union-attr]
    assert kept(by_split["train"])[:2] == [
        (f"en-US {number} title", f"de {number} title"),
        (f"en-US {number} bold & Ctrl text end", f"de {number} bold & Strg text end"),
    ]
    assert by_split["train"][2] == Rejected("empty")
    marked = kept(libreoffice(tmp_path / "help", markup=True).examples("train"))
    assert marked[1][0] == f"en-US {number} <b>bold</b> &amp; Ctrl text<br/>end"


def deb_of(pages: dict[str, bytes], compression: str = "xz") -> bytes:
    """A Debian package."""
    data = tar_of({f"./usr/share/libreoffice/help/{name}": page for name, page in pages.items()}, f"w:{compression}")

    def member(name: str, body: bytes) -> bytes:
        header = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(body):<10}`\n".encode()
        return header + body + b"\n" * (len(body) % 2)

    return (
        b"!<arch>\n"
        + member("debian-binary", b"2.0\n1")
        + member("control.tar.xz", b"x")
        + member(f"data.tar.{compression}".rstrip("."), data)
    )


@pytest.mark.parametrize("compression", ["xz", ""])
def test_packages_are_read_like_folders(tmp_path: Path, compression: str) -> None:
    folder = help_folder(tmp_path / "help")
    for language, name in (("en-US", "en-us"), ("de", "de")):
        pages = {path.relative_to(folder).as_posix(): path.read_bytes() for path in (folder / language).rglob("*.html")}
        (tmp_path / f"libreoffice-help-{name}_1_all.deb").write_bytes(deb_of(pages, compression))
    assert list(libreoffice(tmp_path).examples("train")) == list(libreoffice(folder).examples("train"))


def test_a_package_that_is_missing_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="apt-get download libreoffice-help-en-us libreoffice-help-de"):
        list(libreoffice(tmp_path).examples("train"))


def test_members_with_paths_out_of_the_archive_go_nowhere_else(tmp_path: Path) -> None:
    archive, out = tmp_path / "a.tgz", tmp_path / "out"
    archive.write_bytes(tar_of({"../../evil": b"x", "/etc/evil": b"y", "wanted": b"z"}))
    copy_members(archive, {"../../evil": out})
    assert out.read_bytes() == b"x"
    assert {path.name for path in tmp_path.rglob("*")} == {"a.tgz", "out"}


def test_links_and_repetitions_are_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        for _ in range(2):
            archive.addfile(tarfile.TarInfo("twice"))
    path = tmp_path / "a.tar"
    path.write_bytes(buffer.getvalue())
    with pytest.raises(DataError, match="has no file link"):
        copy_members(path, {"link": tmp_path / "out"})
    with pytest.raises(DataError, match="has twice twice"):
        copy_members(path, {"twice": tmp_path / "out"})


def test_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("s2s_named_corpora.archives.MAX_BYTES", 1 << 20)
    for data in (zip_of({"a": b"\0" * (1 << 21)}), tar_of({"a": b"\0" * (1 << 21)})):
        (tmp_path / "bomb").write_bytes(data)
        with pytest.raises(DataError, match="unpacks to more"):
            copy_members(tmp_path / "bomb", {"a": tmp_path / "out"})


@pytest.mark.parametrize("cut", [0, 1, 10, 100])
@pytest.mark.parametrize("kind", ["tgz", "tar", "zip", "deb"])
def test_archives_that_are_cut_off_are_one_line(tmp_path: Path, kind: str, cut: int) -> None:
    lines = "".join(f"{i}\n" for i in range(1000)).encode()
    makers = {"zip": zip_of, "deb": deb_of, "tar": lambda members: tar_of(members, "w"), "tgz": tar_of}
    path = tmp_path / f"a.{kind}"
    path.write_bytes(makers[kind]({"a": lines})[:cut])
    with pytest.raises(DataError) as error:
        copy_members(path, {"a": tmp_path / "out"})
    assert "\n" not in str(error.value)


def test_all_options_that_do_not_change_examples_are_left_out_of_settings(tmp_path: Path) -> None:
    corpus = corpus_of_made_up_files("wmt14_en_de", "t2t", tmp_path, 5)
    names = {item.name for item in fields(CatalogueConfig)}
    assert names - corpus.settings().keys() == {"name", "offline", "pin", "licences"}


def test_an_unknown_recipe_lists_the_known_ones() -> None:
    with pytest.raises(DataError, match=r"no such recipe of wmt14_en_de\. Did you mean 'fairseq'"):
        CatalogueCorpus(CatalogueConfig(of="wmt14_en_de", recipe="fairsek"))


def test_a_test_set_takes_the_languages_of_the_training_corpus() -> None:
    """newstest2013 has many directions; wmt14_en_de says which."""
    from s2s_translation import TranslationConfig
    from s2s_translation.task import Translation

    def task(**options: Any) -> Any:
        return Translation(TranslationConfig(name="translation", **{"train": "wmt14_en_de", **options}))

    made = task(valid="newstest2013", test="newstest2014")
    assert made.languages == ("en", "de")
    assert made.metric_options == {"lang": "de"}
    for split in ("valid", "test"):
        (named,) = made.data_sources.in_split(split).values()
        assert named.corpus.direction == "en-de"
    turned = task(valid="newstest2013", src_lang="de", tgt_lang="en")
    assert turned.languages == ("de", "en")
    assert next(iter(turned.data_sources.in_split("valid").values())).corpus.direction == "de-en"
    assert next(iter(turned.data_sources.in_split("train").values())).corpus.languages == ("de", "en")
    assert any("wmt14_en_de: to download" in line for line in made.pending())


def test_a_dry_run_of_preparation_lists_downloads_and_makes_none(
    capsys: pytest.CaptureFixture[str], cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from s2s.cli.prepare import main

    monkeypatch.chdir(tmp_path)
    assert main(["experiment=wmt14_en_fr", "--dry-run"]) == 0
    out = capsys.readouterr().out
    total = sum(
        file.expected.n_bytes or 0
        for name in ("europarl_v7", "commoncrawl", "un", "nc_v9", "giga_fren")
        for file in [load_catalogue().files["wmt14"][name]]
    )
    assert f"{total:,} bytes in 5 files" in out
    assert "licence: for research" in out
    assert not cache.exists()
    assert not (tmp_path / "runs").exists()
