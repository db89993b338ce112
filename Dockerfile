# Builds with development dependencies and runs without them. Uses glibc, because native dependencies are built for it.
FROM node:24-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --no-audit --no-fund
COPY . .
RUN npm run build && npm prune --omit=dev

FROM node:24-bookworm-slim
ENV NODE_ENV=production
# Probes and Prometheus connect from outside the container; publish the port only to them.
ENV GRAPHMILL_HTTP=0.0.0.0:8000
WORKDIR /app
COPY --from=build /app/package.json ./
COPY --from=build /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
COPY --from=build /app/bin ./bin
COPY --from=build /app/examples ./examples
RUN mkdir /data && chown node:node /data
USER node
VOLUME /data
EXPOSE 8000
ENTRYPOINT ["node", "/app/bin/graphmill.js"]
CMD ["run", "--all", "--out", "/data/triples"]
