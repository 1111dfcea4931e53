"""CTranslate2 behind FastAPI, as its users write it: python benchmarks/serve_peer.py MODEL, a folder of s2s-export."""

from __future__ import annotations

import socket
import sys

import ctranslate2
import sentencepiece
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

app, folder = FastAPI(), sys.argv[1]
translator = ctranslate2.Translator(folder, inter_threads=1, intra_threads=1)
source, target = (sentencepiece.SentencePieceProcessor(f"{folder}/{side}.spm") for side in ("source", "target"))


class Body(BaseModel):
    """The fields of s2s-serve's own requests that the load sends."""

    text: str
    split: bool = False


@app.post("/v1/generate")
def generate(body: Body) -> dict[str, str]:
    """Runs in one of Starlette's threads, as translating blocks."""
    (result,) = translator.translate_batch([source.encode(body.text, out_type=str)], beam_size=4)
    return {"hyp": target.decode(result.hypotheses[0])}


if __name__ == "__main__":
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as asyncio does for sockets of its own
    print(f"serving  http://127.0.0.1:{listening.getsockname()[1]}", file=sys.stderr, flush=True)
    uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False)).run(sockets=[listening])
