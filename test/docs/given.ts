// What a reader has before the first command of a page: files, a model, and what is so under some headings.
import { readFileSync } from 'node:fs'
import type { Rule } from '../support/llm-script.ts'
import { makePdf } from '../support/pdf.ts'
import { blocks } from './blocks.ts'

/** A checkout in which nothing but a part of the packages is installed. */
const fresh = 'graphmill() { node fresh/bin/graphmill.js "$@"; }'

const pretence = `--import data:text/javascript,${encodeURIComponent(`Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.1.0' } })`).replaceAll("'", '%27')}`

/** What a reader has before the first command: files, and on some pages a model. */
export const given: Readonly<Record<string, { files?: Record<string, string | Uint8Array>; model?: true }>> =
  {
    'README.md': {
      files: {
        'my-notes.md': 'Ada Lovelace was a mathematician.\n',
        'docs/mills.md': '# Mills\n\nA windmill is a mill that is driven by the wind.\n',
      },
    },
    'docs/quickstart.md': { files: { 'notes.md': 'Charles Babbage was an engineer.\n' } },
    'docs/prompts.md': {
      files: {
        'reply.txt': 'Here they are:\n{"name": "windmill"}\n{"name": "watermill"}\n',
        'schema.json': '{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}',
      },
    },
    'docs/flows.md': {
      model: true,
      files: {
        'paper.pdf': await makePdf(['A windmill is a mill that is driven by the wind.']),
        'prompts/contracts/machines.yaml': namedBlock('docs/prompts.md', 'prompts/machines.yaml'),
        'schemas/contracts/mill.yaml': namedBlock('docs/rows.md', 'schemas/mill.yaml'),
      },
    },
    'docs/ontologies.md': { model: true, files: { 'notes.md': 'Albion Mills opened in 1786.\n' } },
    'docs/evaluation.md': { model: true },
    'docs/rows.md': { model: true, files: { 'notes.md': 'Albion Mills opened in 1786.\n' } },
    'docs/stores.md': { model: true, files: { 'notes.md': 'Ada Lovelace was a mathematician.\n' } },
    'docs/models.md': { model: true },
    'docs/extractors.md': { model: true, files: { 'notes.md': 'The mill burnt down in 1791.\n' } },
    'docs/deployment.md': {
      files: { 'reports/one.md': 'A windmill is a mill that is driven by the wind.\n' },
    },
    'docs/faq.md': { files: { 'notes.md': 'A windmill is a mill that is driven by the wind.\n' } },
    'docs/troubleshooting.md': {
      model: true,
      files: {
        'fresh/package.json': '{"type":"module"}',
        'fresh/bin/graphmill.js': readFileSync('bin/graphmill.js'),
        'fresh/node_modules/node/package.json': '{"name":"node","version":"24.0.0"}',
        'notes.md': 'Ada Lovelace was a mathematician.\n',
        'prose.md': 'It rained in Derby.\n',
        'cut.md': 'It snowed in Derby.\n',
        'wrong.md': 'It hailed in Derby.\n',
        'latin1.md': Buffer.from('caf\u00e9\n', 'latin1'),
        'empty.md': '',
      },
    },
    'docs/operations.md': { model: true },
    'docs/metrics.md': { model: true },
    'docs/trustgraph.md': {
      model: true,
      files: {
        'prompts.json': JSON.stringify({ system: '"Be brief."', 'template.ask': '{"prompt":"{{text}}"}' }),
      },
    },
  }

/** An item for every extractor. */
const everyItem = `${JSON.stringify({
  ...{ entity: 'Derby', definition: 'A town.', topic: 'weather' },
  ...{ subject: 'weather', predicate: 'was in', object: 'Derby', 'object-entity': true },
})}\n`

function namedBlock(page: string, file: string): string {
  return blocks.find((block) => block.page === page && block.file === file)!.code
}

/** What is so under a heading of the page about troubleshooting: shell code before each command, and the key that the server takes. */
export const situations: Readonly<Record<string, { readonly before?: string; readonly apiKey?: string }>> = {
  'graphmill is not built': { before: fresh },
  'Node is too old': { before: fresh.replace('node ', `NODE_OPTIONS='${pretence}' node `) },
  'The key is refused': { apiKey: 'sk-new' },
}

/** What the model of these pages says. */
export const rules: readonly Rule[] = [
  { match: 'Name the events in the text', reply: '{"event": "the fire of the mill", "year": 1791}' },
  { match: 'It rained in Derby', reply: 'The text says what the weather was like in a town.' },
  { match: 'It snowed in Derby', reply: { text: everyItem, repeat: 3, truncateAfter: 60 } },
  { match: 'It hailed in Derby', reply: `{"name": "hail"}\n${everyItem}` },
  { match: 'Find the rows of the table', reply: '{"name":"Albion Mills","opened":1786}' },
  {
    match: 'in the words of an ontology',
    reply: '{"type":"entity","entity":"Albion Mills","entity_type":"Mill"}',
  },
]
