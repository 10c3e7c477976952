# What a container is, its command says. The image has what an aggregator needs, and nothing that draws charts or writes tables
# in a process that holds keys; with `--build-arg LOCK=requirements-image.lock` it has everything, for a collector.
FROM python:3.12.11-slim-bookworm AS build
ARG LOCK=requirements-aggregator.lock
WORKDIR /src
RUN python -m venv /opt/prio
COPY ${LOCK} ./
RUN /opt/prio/bin/pip install --no-cache-dir --no-deps --require-hashes --only-binary :all: \
    --requirement ${LOCK}
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY field field
COPY aggregator aggregator
RUN /opt/prio/bin/pip install --no-cache-dir --no-deps --no-build-isolation . \
 && /opt/prio/bin/pip check

FROM python:3.12.11-slim-bookworm
COPY --from=build /opt/prio /opt/prio
# /data holds a party's own state, /key its store's key, /secret its database's password, /cache the compiled kernels; they
# are volumes, the rest is read-only.
# Anybody may write to /cache, so that `docker run --user` works for whoever makes task files.
RUN useradd --system --uid 10001 --no-create-home prio \
 && install -d -o prio -g prio -m 0700 /data /key /journal \
 && install -d -o prio -g prio -m 0755 /secret \
 && install -d -o prio -g prio -m 0777 /cache
ENV PATH=/opt/prio/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    NUMBA_CACHE_DIR=/cache
USER prio
WORKDIR /data
# A new cache volume starts with what is compiled here. On another kind of processor it is compiled anew.
RUN prio warm && find /cache -type d -exec chmod 0777 {} +
VOLUME ["/data", "/key", "/cache"]
ENTRYPOINT ["prio"]
