# docker build -t pdscope .
# docker run -p 9836:9836 -v ./pdscope.yml:/etc/pdscope/pdscope.yml:ro pdscope

FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY exporter exporter
COPY rules rules
COPY dashboards dashboards
RUN pip wheel --no-cache-dir --wheel-dir /wheels .

FROM python:3.11-slim-bookworm
# The wheel brings the rules and dashboards to share/pdscope of Python's prefix; the link is where packages put them.
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links=/wheels pdscope \
    && ln -s /usr/local/share/pdscope /usr/share/pdscope \
    && useradd --system --uid 10836 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin pdscope
# By number, so that Kubernetes' runAsNonRoot can check it.
USER 10836
EXPOSE 9836
# For the default CMD; with another port, prefix or TLS, override it (--health-cmd) or use the orchestrator's probes.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9836/-/healthy', timeout=4)"]
ENTRYPOINT ["pdscope"]
# All interfaces: those of the container. What reaches them is what the container's runtime publishes.
CMD ["serve", "--config.file=/etc/pdscope/pdscope.yml", "--web.listen-address=0.0.0.0:9836"]
