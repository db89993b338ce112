// Writes the pages of docs/ that are tables of what the code says: errors.md and configuration.md. A test fails when one is stale.
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { defaultsText, type OptionEntry, optionTable } from '../src/config/options.ts'
import { errorTable } from '../src/errors.ts'

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

/** The pages, by file name. */
export const pages: Readonly<Record<string, () => string>> = {
  'errors.md': errorsPage,
  'configuration.md': configurationPage,
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  for (const [name, page] of Object.entries(pages))
    writeFileSync(new URL(`../docs/${name}`, import.meta.url), page())
