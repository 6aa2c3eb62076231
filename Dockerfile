# The gateway with the calibrated gate. docs/how-to/operate-the-gateway.md says how to run it; DRIKE_EXTRAS=encoder,postgres for PostgreSQL.
FROM python:3.12-slim AS build
ARG DRIKE_EXTRAS=encoder
COPY pyproject.toml constraints.txt README.md LICENSE /source/
COPY src /source/src
RUN python -m venv --without-pip /opt/drike \
 && pip --python /opt/drike/bin/python install --no-cache-dir -c /source/constraints.txt "/source[$DRIKE_EXTRAS]" \
 && find /opt/drike -type d \( -name tests -o -name test \) -prune -exec rm -r {} +

FROM python:3.12-slim
RUN useradd --uid 10001 --create-home drike && install -d -o drike /data /models
COPY --from=build /opt/drike /opt/drike
USER drike
WORKDIR /data
# The encoder's weights are read from /models, a Hugging Face cache: without them questions match edits by names.
ENV PATH=/opt/drike/bin:$PATH PYTHONDONTWRITEBYTECODE=1 HF_HUB_CACHE=/models XDG_CACHE_HOME=/data/.cache
VOLUME ["/data", "/models"]
EXPOSE 8800 8801
HEALTHCHECK --interval=10s --start-period=20s CMD \
  ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8801/healthz', timeout=3)"]
ENTRYPOINT ["drike"]
CMD ["serve", "--help"]
