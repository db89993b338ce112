// What the tests with TrustGraph are about: a text, what the model says of it, and the prompts, the table and the ontology. Both sides
// read the same files; names are in lower case, because kg-extract-agent keeps the case of names in IRIs.

export const text = 'The albion mill was built in 1786 by rennie. A mill is a machine that grinds grain.'

const lines = (...items: readonly object[]) => items.map((item) => `${JSON.stringify(item)}\n`).join('')

/** The model's reply for each kind of prompt. */
export const replies: Readonly<Record<string, string>> = {
  definitions: lines(
    { entity: 'mill', definition: 'a machine that grinds grain' },
    { entity: 'albion', definition: 'a mill, built in 1786' },
  ),
  relationships: lines(
    { subject: 'albion', predicate: 'built by', object: 'rennie', 'object-entity': true },
    { subject: 'albion', predicate: 'built in', object: '1786', 'object-entity': false },
  ),
  rows: lines({ name: 'albion', built: 1786 }),
  agent: lines(
    { type: 'definition', entity: 'mill', definition: 'a machine that grinds grain' },
    { type: 'relationship', subject: 'albion', predicate: 'is', object: 'mill', 'object-entity': true },
  ),
  ontology: lines(
    { type: 'entity', entity: 'albion', entity_type: 'Mill' },
    { type: 'entity', entity: 'rennie', entity_type: 'Person' },
    {
      type: 'relationship',
      subject: 'albion',
      subject_type: 'Mill',
      relation: 'builtBy',
      object: 'rennie',
      object_type: 'Person',
    },
    { type: 'attribute', entity: 'albion', entity_type: 'Mill', attribute: 'built', value: '1786' },
  ),
  json: '{"mills":1,"names":["albion"]}',
  text: 'One mill.',
  nothing: '',
}

const prompt = (kind: string, type: string, rest = '') => ({
  prompt: `Kind: ${kind}. ${rest}\n<text>\n{{text}}\n</text>`,
  'response-type': type,
})

const prompts: Readonly<Record<string, object>> = {
  'extract-definitions': prompt('definitions', 'jsonl'),
  'extract-relationships': prompt('relationships', 'jsonl'),
  'extract-rows': prompt('rows', 'jsonl', '{{schema}}'),
  'agent-kg-extract': prompt('agent', 'jsonl'),
  'extract-with-ontologies': prompt(
    'ontology',
    'jsonl',
    '{% for id, class in classes.items() %}{{id}} {% endfor %}{{object_properties}} {{datatype_properties}}',
  ),
  question: { prompt: '{{question}}', 'response-type': 'text' },
  value: prompt('json', 'json'),
  words: prompt('text', 'text'),
  'no-lines': prompt('nothing', 'jsonl'),
  'no-words': prompt('nothing', 'text'),
  failing: prompt('failure', 'jsonl'),
}

const label = (name: string) => ({ 'rdfs:label': [{ value: name, lang: 'en' }], 'rdfs:comment': `A ${name}` })
const iri = (name: string) => `http://example.org/mills#${name}`
const classOf = (name: string) => ({ uri: iri(name), type: 'owl:Class', ...label(name) })
const property = (name: string, kind: string, domain: string, range: string) => ({
  ...{ uri: iri(name), type: `owl:${kind}`, ...label(name) },
  ...{ 'rdfs:domain': domain, 'rdfs:range': range },
})

const ontology = {
  metadata: { name: 'mills', namespace: 'http://example.org/mills#' },
  classes: { Mill: classOf('Mill'), Person: classOf('Person'), Place: classOf('Place') },
  objectProperties: { builtBy: property('builtBy', 'ObjectProperty', 'Mill', 'Person') },
  datatypeProperties: { built: property('built', 'DatatypeProperty', 'Mill', 'xsd:string') },
}

const table = {
  name: 'mills',
  description: 'Mills and when they were built',
  fields: [
    { name: 'name', type: 'string', primary_key: true, description: 'The name' },
    { name: 'built', type: 'integer', description: 'The year' },
  ],
}

/** The configuration of prompts as TrustGraph stores it: JSON texts by key. */
export const promptValues: Readonly<Record<string, string>> = {
  system: JSON.stringify('Answer in lines of JSON.'),
  'template-index': JSON.stringify(Object.keys(prompts)),
  ...Object.fromEntries(
    Object.entries(prompts).map(([id, value]) => [`template.${id}`, JSON.stringify(value)]),
  ),
}

/** The files that graphmill reads: prompts, row schemas, ontologies. */
export const files = {
  'prompts.json': promptValues,
  'schemas.json': { mills: JSON.stringify(table) },
  'ontologies.json': { mills: ontology },
} as const

/** The entries of the configuration of a workspace: type, key, value. */
export const entries: readonly (readonly [string, string, string])[] = [
  ...Object.entries(promptValues).map(([key, value]) => ['prompt', key, value] as const),
  ['schema', 'mills', JSON.stringify(table)],
  ['ontology', 'mills', JSON.stringify(ontology)],
]
