# A server of trained runs, for a CPU:
#   docker build -t s2s .
#   docker run --rm -p 8000:8000 -v "$PWD/runs:/runs:ro" s2s run=/runs/demo
# For a GPU of NVIDIA: docker build --build-arg TORCH=cu130 -t s2s . and docker run --gpus all …
# With -v s2s-cache:/home/s2s/.cache a second start does without torch, as docs/serving.md describes.
# Any other command: docker run --rm -v "$PWD:/work" -w /work --entrypoint s2s-train s2s run=mine …

# The Python for which requirements.lock has the hash of torch.
FROM python:3.11-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev
COPY . /source
RUN PIP_CONSTRAINT=/source/constraints.txt pip wheel --no-deps --wheel-dir /wheels /source

FROM python:3.11-slim
ARG TORCH=cpu
COPY constraints.txt requirements.lock /
# Every package has its hash in the lock, which `make lock` writes, but torch for a GPU and what it brings along.
RUN index="https://download.pytorch.org/whl/${TORCH}" && \
    if [ "$TORCH" != cpu ]; then \
        pip install --no-cache-dir -c /constraints.txt torch --index-url "$index" && \
        sed -i '/^torch==/,/[^\\]$/d' /requirements.lock; \
    fi && \
    pip install --no-cache-dir --no-deps --require-hashes -r /requirements.lock --extra-index-url "$index"
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels pip install --no-cache-dir --no-deps /wheels/*.whl
# A volume there belongs to this user if the folder does.
RUN useradd --create-home s2s && install -d -o s2s -g s2s /home/s2s/.cache
USER s2s
WORKDIR /home/s2s
ENV OMP_WAIT_POLICY=PASSIVE
EXPOSE 8000
HEALTHCHECK --start-period=60s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/healthz', timeout=5)"]
# SIGTERM, which `docker stop` sends, lets requests finish.
ENTRYPOINT ["s2s-serve", "host=0.0.0.0"]
