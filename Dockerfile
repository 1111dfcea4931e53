# A server of trained runs, for a CPU:
#   docker build -t s2s .
#   docker run --rm -p 8000:8000 -v "$PWD/runs:/runs:ro" s2s run=/runs/demo
# For a GPU of NVIDIA: docker build --build-arg TORCH=cu130 -t s2s . and docker run --gpus all …
# Any other command: docker run --rm -v "$PWD:/work" -w /work --entrypoint s2s-train s2s run=mine …

FROM python:3.12-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev
COPY . /source
RUN pip wheel --no-deps --wheel-dir /wheels /source

FROM python:3.12-slim
ARG TORCH=cpu
COPY constraints.txt /constraints.txt
RUN pip install --no-cache-dir -c /constraints.txt torch --index-url "https://download.pytorch.org/whl/${TORCH}"
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir -c /constraints.txt "$(echo /wheels/*.whl)[serve,documents,hf]"
RUN useradd --create-home s2s
USER s2s
WORKDIR /home/s2s
ENV OMP_WAIT_POLICY=PASSIVE
EXPOSE 8000
HEALTHCHECK --start-period=60s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/healthz', timeout=5)"]
# SIGTERM, which `docker stop` sends, lets requests finish.
ENTRYPOINT ["s2s-serve", "host=0.0.0.0"]
