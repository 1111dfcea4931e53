"""LibreTranslate with our model: python benchmarks/serve_libretranslate.py MODEL, a folder of s2s-export.

In an environment of its own, as it fixes older versions of many packages: pip install libretranslate==1.9.6 torch. Its
sentence splitter is a network that it downloads; here each text is one sentence, which costs it nothing.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from tempfile import TemporaryDirectory


def package(model: Path, folder: Path, src: str, tgt: str) -> None:
    """Write an Argos package, which has one tokeniser for both languages."""
    own = folder / f"DATA/argos-translate/packages/translate-{src}_{tgt}-1_0"
    own.mkdir(parents=True)
    (own / "model").symlink_to(model.resolve(), target_is_directory=True)
    (own / "sentencepiece.model").symlink_to((model / "source.spm").resolve())
    languages = {"from_code": src, "from_name": src, "to_code": tgt, "to_name": tgt}
    (own / "metadata.json").write_text(json.dumps({"package_version": "1.0", "argos_version": "1.9", **languages}))


class WholeText:
    """A splitter that takes a text for one sentence."""

    def __init__(self, pkg: object) -> None:
        pass

    def split_sentences(self, text: str) -> list[str]:
        """The text."""
        return [text]


def main(model: str) -> None:
    """Serve the model until the process is ended."""
    with TemporaryDirectory() as folder:
        for src, tgt in ("en", "de"), ("de", "en"):  # of a single package it asks for more at a server
            package(Path(model), Path(folder), src, tgt)
        os.environ |= {f"XDG_{kind}_HOME": f"{folder}/{kind}" for kind in ("CONFIG", "CACHE", "DATA")}
        os.environ["ARGOS_INTRA_THREADS"] = "1"  # as the others; by default it has all cores
        os.chdir(folder)  # it writes a database of its own
        from argostranslate import sbd

        sbd.MiniSBDSentencizer = WholeText
        import waitress
        from libretranslate.app import create_app
        from libretranslate.main import get_parser

        options = get_parser().parse_args(["--disable-files-translation", "--disable-web-ui"])
        listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
        app = create_app(options)
        print(f"serving  http://127.0.0.1:{listening.getsockname()[1]}", file=sys.stderr, flush=True)
        waitress.serve(app, sockets=[listening], threads=options.threads, _quiet=True)


if __name__ == "__main__":
    main(sys.argv[1])
