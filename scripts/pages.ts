// Writes the pages of docs/ that are generated from the code, errors.md, configuration.md and permissions.md, and the chart's list of
// options. A test fails when one is stale.
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { processors } from '../processors/index.ts'
import { isDeadTopic, schemasTopic } from '../src/broker/topics.ts'
import { serverVariables } from '../src/config/models.ts'
import { defaultsText, type OptionEntry, optionTable } from '../src/config/options.ts'
import { errorTable } from '../src/errors.ts'
import { type Permission, permissionsOf } from '../src/flow/permissions.ts'
import { outputRoute } from '../src/flow/ports.ts'
import type { AnyProcessor } from '../src/flow/processor.ts'

function whatHappens({ retry, ends }: (typeof errorTable)[keyof typeof errorTable]): string {
  if (ends === 'command') return 'no: the command ends; a `run` that is already running refuses the change'
  if (ends === 'document') return 'no: the document fails, the others continue'
  switch (retry) {
    case 'never':
      return 'no: a message is dead-lettered, a command ends'
    case 'later':
      return 'yes, until it succeeds or the deadline passes; interactive commands end'
    case 'operator':
      return 'after a person has acted: `run` pauses what depends on it, other commands end at once'
    default:
      return retry satisfies never
  }
}

function errorsPage(): string {
  const rows = Object.entries(errorTable).map(
    ([code, entry]) => `| \`${code}\` | ${whatHappens(entry)} | ${entry.remedy} |`,
  )
  return `# Errors

Every error that graphmill raises on purpose has a code. You find the code in replies (\`error.type\`), on \`progress\`, in the
\`dead-code\` header of dead letters, in logs and metrics, and on the command line. A command exits with 2 for wrong usage and with 1
for any other error.

One error has two codes: a document without text is \`document_empty\` on the command line and on \`progress\`, but \`empty_document\`
in the \`error.type\` that the ledger stores and \`status\` shows.

| code | retried? | what to do |
|---|---|---|
${rows.join('\n')}
`
}

function configurationPage(): string {
  const rows = Object.entries<OptionEntry>(optionTable).map(([name, entry]) => {
    const value = entry.type === 'flag' ? '' : ` ${entry.value ?? 'VALUE'}`
    const standard = Array.isArray(entry.default)
      ? entry.default.join(',')
      : (entry.default ?? defaultsText(entry))
    const choices = entry.choices ? `; one of ${entry.choices.join(', ')}` : ''
    const help = `${entry.help}${choices}`.replaceAll('|', '\\|')
    return `| \`--${name}${value.replaceAll('|', '\\|')}\` | ${help} | ${standard === '' || standard === false ? '' : standard === defaultsText(entry) ? standard : `\`${standard}\``} |`
  })
  const ofServers = Object.values(serverVariables).map(
    ({ variable, help }) => `| \`${variable}\` | ${help} |`,
  )
  return `# Configuration

You can set every option in three ways: as a flag of the commands that use it, as an environment variable (\`GRAPHMILL_\` and the name
in capitals, as in \`GRAPHMILL_CHUNK_SIZE\`), or as a key of the configuration file (\`graphmill.yaml\`, or the file that \`--config\`
names). A flag overrides the environment, the environment overrides the file, and the file overrides the default.
\`graphmill config\` prints every value and where it came from.

graphmill also reads the variables of the model servers. A key may also be in a file, which the variable with \`_FILE\` names, such
as \`OPENAI_API_KEY_FILE\`.

| variable | what it holds |
|---|---|
${ofServers.join('\n')}

You can give a secret as a file (\`--store-token-file\`, \`GRAPHMILL_STORE_TOKEN_FILE\`). The file is read again when it changes; see
[operations](operations.md#secrets).

| option | description | default |
|---|---|---|
${rows.join('\n')}

Separate the values of a list with commas, or repeat the flag. In the file, write a YAML list:

\`\`\`yaml
# graphmill.yaml
broker: kafka://127.0.0.1:9092
extractors: [definitions, relationships]
chunk-size: 1500
\`\`\`
`
}

const place = { space: 'gm', workspace: 'default', flow: 'default' }
const receivers = processors
  .filter(({ inputs }) => (inputs as readonly string[]).includes('prompt-reply'))
  .map(({ name }) => name)

/** A processor's permissions as cells of a table: topics to read, groups, topics to write, topics for dead letters. */
function permissionCells(processor: AnyProcessor): string[] {
  const all = permissionsOf(processor, place, processor.name === 'text-completion' ? ['client'] : receivers)
  const cell = (found: (permission: Permission) => boolean) =>
    all
      .filter(found)
      .map(({ name }) => `\`${name}\``)
      .join('<br>')
  const isDead = ({ name }: Permission) => isDeadTopic(name)
  const common = new Set([schemasTopic(place.space), outputRoute('progress', place).topic])
  return [
    cell(
      ({ kind, right, name }) => kind === 'topic' && right === 'read' && name !== schemasTopic(place.space),
    ),
    cell(({ kind }) => kind === 'group'),
    cell((each) => each.right === 'write' && !isDead(each) && !common.has(each.name)),
    cell((each) => each.right === 'write' && isDead(each)),
  ]
}

function permissionsPage(): string {
  const rows = processors.map(
    (processor) => `| ${[processor.name, ...permissionCells(processor)].join(' | ')} |`,
  )
  return `# Permissions on the broker

This page lists the least permissions that each processor needs. The names are those of the default flow: another workspace or flow
changes the last two parts of a name, and \`--space\` changes the first. Create the topics with an account that has the right to
(\`graphmill topics create\`), then give each processor its own account. Processors that run in one process share an account, which
needs the permissions of all of them. [SECURITY.md](../SECURITY.md) says what each processor trusts.

## Kafka

All permissions are on single topics and groups; none is on the cluster. Besides those in the table, every processor needs

- \`WRITE\` on \`${outputRoute('progress', place).topic}\`, where it reports the outcome of its messages,
- \`READ\` and \`WRITE\` on \`${schemasTopic(place.space)}\`,
- until its dead-letter topic exists: \`CREATE\` on that topic, and \`DESCRIBE_CONFIGS\` on the topic that it reads, because the new
  topic must accept the largest message of that topic. If you create dead-letter topics yourself, a processor needs neither.

| processor | READ on topics | READ on groups | WRITE on topics | dead letters: WRITE (CREATE) on topics |
|---|---|---|---|---|
${rows.join('\n')}

With \`--limit-scope workspace\` or \`all\`, \`prompt\` and \`text-completion\` also need \`READ\` and \`WRITE\` on \`gm.notify.limits\`, and
\`topics create\` with the same option creates it.

\`topics create\` needs \`CREATE\` and \`DESCRIBE\` on the topics and, to give the groups their first positions, \`READ\` on the topics
and groups of the table. Without \`READ\` it creates the topics and ends with \`topic_refused\` or \`broker_refused\`.

\`prompt\` and \`text-completion\` can answer only clients whose response topic they may write to: for each client of yours, give them
\`WRITE\` on its response topic (\`gm.response.prompt.CLIENT.default.default\`). A client needs \`WRITE\` on the request topic and
\`READ\` on its own response topic. \`load\` and \`remove\` need \`WRITE\` on \`${outputRoute('document', place).topic}\`, on \`progress\` and on the
schemas topic, and \`READ\` on the schemas topic and \`${outputRoute('status', place).topic}\`. Without the last, \`load\` publishes
every document, and \`chunk-text\` finds out what is new; \`remove\` finds no documents. Only with \`DESCRIBE\` on the groups of \`chunk-text\` and \`ledger\` does \`load\` leave out documents that have
not changed.

Without \`READ\` on \`contents\`, \`prompt\` also asks the model about chunks that their documents no longer have, and warns of it. It reads
\`retractions\` only when it has a cache of replies.

The table is generated from the code. A test runs every processor with an account that has only these permissions, on a Kafka that
denies everything else (\`StandardAuthorizer\`), and checks that it does its work and writes its dead letters.

## Pulsar

On topics the permissions are the same: \`consume\` where the table says \`READ\` on a topic (the group is the subscription), and
\`produce\` where it says \`WRITE\`. The admin requests about a topic (its partitions, the position of a group, and the properties of a
subscription, which record deaths and expired messages) need no further permission.

Two operations need more than a topic's permissions:

- Listing the topics of the namespace, which every command does when it connects, needs \`consume\` or \`produce\` on the namespace, and so
  on all its topics. On Pulsar the namespace is therefore the security boundary.
- Creating a topic needs the rights of a tenant administrator. This includes dead-letter topics, unless you create them yourself.

\`topics create\` creates the subscriptions with \`consume\` on their topics.

These rules come from the source code of Pulsar 4.0. They are not tested on a server that enforces them.
`
}

/** For the chart, which refuses others. */
const optionNames = () =>
  Object.entries<OptionEntry>(optionTable)
    .flatMap(([name, { secret }]) => (secret ? [name, `${name}-file`] : [name]))
    .map((name) => `${name}\n`)
    .join('')

/** The pages, by their path from docs/. */
export const pages: Readonly<Record<string, () => string>> = {
  'errors.md': errorsPage,
  'configuration.md': configurationPage,
  'permissions.md': permissionsPage,
  '../deploy/helm/graphmill/files/options.txt': optionNames,
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  for (const [name, page] of Object.entries(pages))
    writeFileSync(new URL(`../docs/${name}`, import.meta.url), page())
