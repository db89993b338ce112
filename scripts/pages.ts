// Writes the pages of docs/ that are tables of what the code says: errors.md, configuration.md and permissions.md. A test fails when one is stale.
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { processors } from '../processors/index.ts'
import { isDeadTopic, schemasTopic } from '../src/broker/topics.ts'
import { defaultsText, type OptionEntry, optionTable } from '../src/config/options.ts'
import { errorTable } from '../src/errors.ts'
import { type Permission, permissionsOf } from '../src/flow/permissions.ts'
import { outputRoute } from '../src/flow/ports.ts'
import type { AnyProcessor } from '../src/flow/processor.ts'

function whatHappens({ retry, ends }: (typeof errorTable)[keyof typeof errorTable]): string {
  if (ends === 'command') return 'no: the command ends; a `run` that is under way refuses the change'
  if (ends === 'document') return 'no: the document has failed, and the others go on'
  switch (retry) {
    case 'never':
      return 'no: a message goes to its dead-letter topic, a command ends'
    case 'later':
      return 'yes, for as long as it lasts or until the deadline; commands that a person waits for end'
    case 'operator':
      return 'when a person has acted: `run` pauses what needs it, other commands end at once'
    default:
      return retry satisfies never
  }
}

function errorsPage(): string {
  const rows = Object.entries(errorTable).map(
    ([code, entry]) => `| \`${code}\` | ${whatHappens(entry)} | ${entry.remedy} |`,
  )
  return `# Errors

Every error that graphmill raises on purpose has a code. It stands in replies (\`error.type\`), on \`progress\`, in the
\`dead-code\` header of dead letters, in logs and metrics, and on the command line, where wrong usage exits with 2 and other errors with 1.

One has two names: a document without text is \`document_empty\` on the command line and on \`progress\`, and \`empty_document\` in the
\`error.type\` that the ledger keeps and \`status\` shows.

| code | tried again? | what to do |
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
  return `# Configuration

Every option is a flag of the commands that use it, an environment variable (\`GRAPHMILL_\` and its name in capitals, as in
\`GRAPHMILL_CHUNK_SIZE\`), and a key of the configuration file (\`graphmill.yaml\`, or what \`--config\` names). A flag goes before
the environment, the environment before the file, the file before the default.

The servers' own variables are read too: \`OPENAI_BASE_URL\`, \`OPENAI_API_KEY\` (or \`OPENAI_API_KEY_FILE\`) and \`OLLAMA_HOST\`.

A secret may be given as a file (\`--store-token-file\`, \`GRAPHMILL_STORE_TOKEN_FILE\`), which is read again when it changes; see
[operations](operations.md#secrets).

| option | what it is | default |
|---|---|---|
${rows.join('\n')}

Lists take commas, and a flag may be repeated. In the file a list is a list:

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

The least that each processor needs, for the default flow; in other flows the last two parts of the names are others, and so is the
first one with \`--space\`. Make the topics with an account that may (\`graphmill topics create\`), then give each processor an
account of its own. Processors that run in one process share an account, and need the sum. What each of them trusts stands in
[SECURITY.md](../SECURITY.md).

## Kafka

All rights are on single topics and groups; there is none on the cluster. Beyond the table every processor needs

- \`WRITE\` on \`${outputRoute('progress', place).topic}\`, where it says what became of its messages,
- \`READ\` and \`WRITE\` on \`${schemasTopic(place.space)}\`,
- until the topic for its dead letters exists: \`CREATE\` on that topic, and \`DESCRIBE_CONFIGS\` on the topic that it reads, whose
  largest message the new topic must take. Where you make these topics yourself, it needs neither.

| processor | READ on topics | READ on groups | WRITE on topics | dead letters: WRITE (CREATE) on topics |
|---|---|---|---|---|
${rows.join('\n')}

\`prompt\` and \`text-completion\` may answer only whom they may write to: add \`WRITE\` on the response topic of every client of yours
(\`gm.response.prompt.CLIENT.default.default\`). A client needs \`WRITE\` on the request topic, and \`READ\` on its own response topic.
\`load\` needs \`WRITE\` on \`${outputRoute('document', place).topic}\`, on \`progress\` and the schemas topic, and \`READ\` on the latter.

The table is made from the code. A test gives every processor an account with these rights on a Kafka that denies everything else
(\`StandardAuthorizer\`), and sees it do its work and write its dead letters.

## Pulsar

By topic the same: \`consume\` where Kafka's table says \`READ\` on a topic (the group is the subscription), \`produce\` where it says
\`WRITE\`. What graphmill asks the admin API of a topic (its partitions, how far a group is, the properties of a subscription, in
which deaths and expired messages are noted) takes no more. Two things are not by topic: to list the topics of the namespace, which
every command does when it connects, takes \`consume\` or \`produce\` on the namespace, and with it on all topics in it, so that there
a namespace is the boundary; and to make a topic (one for dead letters, too, unless you make it) takes the rights of an administrator
of the tenant. This was read in the code of Pulsar 4.0, and is not tested on a server that enforces it.
`
}

/** The pages, by file name. */
export const pages: Readonly<Record<string, () => string>> = {
  'errors.md': errorsPage,
  'configuration.md': configurationPage,
  'permissions.md': permissionsPage,
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  for (const [name, page] of Object.entries(pages))
    writeFileSync(new URL(`../docs/${name}`, import.meta.url), page())
