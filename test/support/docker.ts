// A Docker daemon of the test, apart from any other on the machine, with stand-ins for the images that it cannot pull. It makes no rules
// of iptables, and ends with the test.
import { execFile, spawn } from 'node:child_process'
import { appendFileSync, closeSync, openSync } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'

const execute = promisify(execFile)
const startTimeoutMs = 60_000

export interface Docker {
  /** Variables with which `docker` and `docker-compose` find the daemon. */
  readonly environment: Readonly<Record<string, string>>
  /** The address of this machine in the first network, which is what `host-gateway` stands for. */
  readonly gateway: string
  /** `docker` with these parameters; resolves to what it printed, and rejects with both outputs when it fails. */
  run(...parameters: readonly string[]): Promise<string>
  /** Ends all containers and the daemon, and deletes its images. */
  stop(): Promise<void>
}

/** A running daemon, or undefined after one line on stderr that says what is not shown and why. */
export async function startDocker(what: string): Promise<Docker | undefined> {
  const missing = await obstacle()
  const started = missing ?? (await start())
  if (typeof started !== 'string') return started
  process.stderr.write(`${what}: not shown, ${started}\n`)
  return undefined
}

async function obstacle(): Promise<string | undefined> {
  if (process.getuid?.() !== 0) return 'a Docker daemon needs root'
  for (const command of ['dockerd', 'docker', 'docker-compose', 'dpkg-deb', 'java'])
    if (!(await execute('which', [command]).catch(() => undefined))) return `there is no ${command}`
  return undefined
}

async function start(): Promise<Docker | string> {
  const folder = await mkdtemp(join(tmpdir(), 'graphmill-docker-'))
  const [socket, log] = [join(folder, 'docker.sock'), join(folder, 'dockerd.log')]
  const subnet = `10.${200 + (process.pid % 50)}.${Math.floor(process.pid / 50) % 250}`
  const output = openSync(log, 'a')
  // The kernel ends the daemon, and with it the containers, when this process dies before it could.
  const daemon = spawn('setpriv', ['--pdeathsig', 'TERM', 'dockerd', ...parametersOf(folder, subnet)], {
    stdio: ['ignore', output, output],
  })
  closeSync(output)
  let ended = false
  const end = new Promise<void>((resolve) => {
    const atEnd = () => {
      ended = true
      resolve()
    }
    daemon.once('exit', atEnd).once('error', (error) => {
      appendFileSync(log, `${error.message}\n`)
      atEnd()
    })
  })
  const environment = { DOCKER_HOST: `unix://${socket}`, DOCKER_BUILDKIT: '0', COMPOSE_DOCKER_CLI_BUILD: '0' }
  const run: Docker['run'] = async (...parameters) => {
    const env = { ...process.env, ...environment }
    return (await execute('docker', [...parameters], { env, maxBuffer: 1 << 26 })).stdout
  }
  const stop = async () => {
    if (!ended) {
      const containers = (await run('ps', '--all', '--quiet')).split('\n').filter((id) => id !== '')
      if (containers.length > 0) await run('rm', '--force', '--volumes', ...containers)
      await run('network', 'prune', '--force')
      daemon.kill('SIGTERM')
      await end
    }
    await execute('umount', [join(folder, 'exec/netns/default')]).catch(() => {})
    await rm(folder, { recursive: true, force: true })
  }
  for (const deadline = Date.now() + startTimeoutMs; !ended && Date.now() < deadline; await pause(100)) {
    const answers = await run('info').catch(() => undefined)
    if (answers !== undefined) return { environment, gateway: `${subnet}.1`, run, stop }
  }
  const last = (await readFile(log, 'utf8')).trim().split('\n').at(-1)
  if (!ended) daemon.kill('SIGKILL')
  await end
  await rm(folder, { recursive: true, force: true })
  return `the Docker daemon did not start: ${last}`
}

const parametersOf = (folder: string, subnet: string) => [
  ...['--host', `unix://${folder}/docker.sock`, '--pidfile', `${folder}/docker.pid`],
  ...['--data-root', `${folder}/data`, '--exec-root', `${folder}/exec`],
  // Containers of one network reach each other and this machine without forwarding.
  ...['--bridge', 'none', '--iptables=false', '--ip-masq=false', '--ip-forward=false'],
  ...['--default-address-pool', `base=${subnet}.0/24,size=24`, '--host-gateway-ip', `${subnet}.1`],
]

const shell = (script: string, variables: Readonly<Record<string, string>>) =>
  execute('bash', ['-euo', 'pipefail', '-c', script], {
    env: { ...process.env, ...variables },
    maxBuffer: 1 << 26,
  })

/** Tags a stand-in for `node:24-bookworm-slim`: the same packages of Debian as far as they are needed, this Node and its npm. */
export async function importNode({ environment }: Docker): Promise<void> {
  await inFolder((folder) => shell(nodeScript, { ...environment, FOLDER: folder, NODE: process.execPath }))
}

const nodeScript = `
cd "$FOLDER"
mkdir debs root
packages="base-files bash ca-certificates coreutils dash libacl1 libattr1 libc-bin libc6 libgcc-s1 libgmp10 libpcre2-8-0 libselinux1 \\
  libstdc++6 libtinfo6 zlib1g"
cd debs
apt-get download -qq $packages 2>/dev/null || { apt-get update -qq && apt-get download -qq $packages; }
cd ../root
mkdir -p usr/bin usr/sbin usr/lib usr/lib64 etc/ssl/certs tmp var/tmp root home/node usr/local/bin usr/local/lib/node_modules dev proc sys
for name in bin sbin lib lib64; do ln -s "usr/$name" "$name"; done
for deb in ../debs/*.deb; do
  dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink --exclude ./usr/share/doc --exclude ./usr/share/locale --exclude ./usr/share/man
done
ln -sf dash usr/bin/sh
cp "$NODE" usr/local/bin/node
cp -r "$(npm root --global)/npm" usr/local/lib/node_modules/
for name in npm npx; do ln -s "../lib/node_modules/npm/bin/$name-cli.js" "usr/local/bin/$name"; done
cp /etc/ssl/certs/ca-certificates.crt etc/ssl/certs/
printf 'root:x:0:0::/root:/bin/bash\\nnode:x:1000:1000::/home/node:/bin/bash\\n' > etc/passwd
printf 'root:x:0:\\nnode:x:1000:\\n' > etc/group
echo 'hosts: files dns' > etc/nsswitch.conf
chown 1000:1000 home/node
chmod 1777 tmp var/tmp
# Where a proxy signs what comes from the registry, this machine trusts it.
tar -c . | docker import --change 'ENV NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt' - node:24-bookworm-slim
`

/** Tags a stand-in for `apache/kafka:4.3.1`: the jars of that version, with the code that reads KAFKA_* in the official image. */
export async function importKafka({ environment }: Docker, jars: string): Promise<void> {
  await inFolder((folder) => shell(kafkaScript, { ...environment, FOLDER: folder, JARS: jars }))
}

const kafkaScript = `
cd "$FOLDER"
java_home=$(java -XshowSettings:properties -version 2>&1 | sed -n 's/ *java.home = //p')
mkdir -p opt/java opt/kafka/libs opt/kafka/config etc/kafka/docker mnt/shared/config var/lib/kafka/data
# Debian's files of configuration and of certificates are links to /etc.
(cd "$java_home" && tar -ch --ignore-failed-read --exclude 'lib/src.zip' --exclude lib/ct.sym bin conf lib 2>/dev/null) | tar -x -C opt/java
cp "$JARS"/*.jar opt/kafka/libs/
touch etc/kafka/docker/server.properties
cat > etc/kafka/docker/log4j2.yaml <<'END'
Configuration:
  Appenders: { Console: { name: STDOUT, PatternLayout: { pattern: "%p %c{1} %m%n" } } }
  Loggers: { Root: { level: INFO, AppenderRef: [{ ref: STDOUT }] } }
END
cp etc/kafka/docker/log4j2.yaml etc/kafka/docker/tools-log4j2.yaml
cat > etc/kafka/docker/run <<'END'
#!/bin/bash
set -e
export CLUSTER_ID=\${CLUSTER_ID:-5L6g3nShT-eMCtK--X86sw}
java=(/opt/java/bin/java -Xms128m -Xmx384m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp '/opt/kafka/libs/*')
"\${java[@]}" kafka.docker.KafkaDockerWrapper setup --default-configs-dir /etc/kafka/docker --mounted-configs-dir /mnt/shared/config --final-configs-dir /opt/kafka/config
exec "\${java[@]}" -Dlog4j2.configurationFile=/opt/kafka/config/log4j2.yaml kafka.Kafka /opt/kafka/config/server.properties
END
chmod +x etc/kafka/docker/run
cat > Dockerfile <<'END'
FROM node:24-bookworm-slim
COPY . /
RUN chown -R 1000:1000 /opt/kafka/config /var/lib/kafka
USER 1000:1000
VOLUME ["/etc/kafka/secrets", "/var/lib/kafka/data", "/mnt/shared/config"]
CMD ["/etc/kafka/docker/run"]
END
docker build --network none --quiet --tag apache/kafka:4.3.1 .
`

async function inFolder(work: (folder: string) => Promise<unknown>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'graphmill-image-'))
  try {
    await work(folder)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
