# What runs, without development dependencies; its layer changes only with the lock file. Uses glibc, because native dependencies are built for it.
FROM node:24-bookworm-slim AS dependencies
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --no-audit --no-fund

# The build runs on the Node of the image, and needs no install scripts.
FROM node:24-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY . .
RUN npm run build

FROM node:24-bookworm-slim
ARG REVISION=unknown
LABEL org.opencontainers.image.title="graphmill" \
      org.opencontainers.image.description="Knowledge-graph extraction as message-driven processors over Kafka and Pulsar" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="docker.io/library/node:24-bookworm-slim"
ENV NODE_ENV=production
# Probes and Prometheus connect from outside the container; publish the port only to them.
ENV GRAPHMILL_HTTP=0.0.0.0:8000
WORKDIR /app
RUN mkdir /data && chown node:node /data
COPY --from=dependencies /app/node_modules ./node_modules
COPY package.json LICENSE ./
COPY bin ./bin
COPY examples ./examples
COPY --from=build /app/dist ./dist
# As a number, so that Kubernetes can see that it is not root.
USER 1000:1000
VOLUME /data
EXPOSE 8000
# The connection is bash's own: a check of every few seconds must not start a second Node.
HEALTHCHECK --interval=5s --timeout=3s --start-period=60s --retries=6 CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/${GRAPHMILL_HTTP##*:} && printf 'GET /readyz HTTP/1.0\\r\\nHost: localhost\\r\\n\\r\\n' >&3 && read -r _ status _ <&3 && [ \"$status\" = 200 ]"]
ENTRYPOINT ["node", "/app/bin/graphmill.js"]
CMD ["run", "--all", "--out", "/data/triples"]
