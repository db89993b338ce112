import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { loadOntology, readOntology } from '../../src/ontology/load.ts'
import { ancestors, type Ontology } from '../../src/ontology/ontology.ts'
import { file, fixture, folder, turtle } from './support/files.ts'

const m = 'http://example.org/mills#'

async function load(...paths: string[]): Promise<Ontology> {
  return (await loadOntology(paths)).ontology
}

/** The problems of files as `line at message`. */
async function problemsOf(...paths: string[]): Promise<string[]> {
  const { problems } = await readOntology(paths)
  return problems.map(({ line, at, message }) =>
    [line, at, message].filter((part) => part !== undefined).join(' '),
  )
}

describe('formats', () => {
  test.each(['mills.ttl', 'mills.rdf', 'mills.jsonld'])(
    'reads classes and properties of %s',
    async (name) => {
      const ontology = await load(fixture(name))
      expect(ontology.ids).toEqual(['mills'])
      expect(ontology.classes.get(`${m}Building`)).toMatchObject({
        key: 'Building',
        label: 'building',
        ontology: 'mills',
      })
      expect(ontology.classes.get(`${m}Mill`)?.parents).toContain(`${m}Building`)
      expect(ontology.objectProperties.get(`${m}designedBy`)).toMatchObject({
        key: 'designedBy',
        kind: 'object',
        domain: [[`${m}Building`]],
        range: [[`${m}Person`]],
      })
    },
  )

  test("reads TrustGraph's JSON, where elements name each other by id", async () => {
    const ontology = await load(fixture('mills.json'))
    const own = 'https://trustgraph.ai/ontology/mills#'
    expect([...ontology.classes.keys()]).toEqual([`${m}Building`, `${own}mill`, `${own}person`])
    expect(ontology.classes.get(`${own}mill`)).toMatchObject({ key: 'mill', parents: [`${m}Building`] })
    expect(ontology.objectProperties.get(`${own}designed-by`)).toMatchObject({
      domain: [[`${m}Building`]],
      range: [[`${own}person`]],
      inverses: [`${own}designer-of`],
    })
    expect(ontology.datatypeProperties.get(`${own}opened`)?.range).toEqual([
      ['http://www.w3.org/2001/XMLSchema#gYear'],
    ])
  })

  test('reads several ontologies of one JSON file, as objects or as JSON text', async () => {
    const one = { classes: { Ship: {} } }
    const two = {
      classes: { Port: { uri: 'http://example.org/Port' } },
      datatypeProperties: { depth: { 'rdfs:domain': 'Port', 'rdfs:range': 'xsd:decimal' } },
    }
    const path = file('all.json', JSON.stringify({ sea: one, coast: JSON.stringify(two) }))
    const ontology = await load(path)
    expect(ontology.ids).toEqual(['coast', 'sea'])
    expect([...ontology.classes.keys()]).toEqual([
      'http://example.org/Port',
      'https://trustgraph.ai/ontology/sea#Ship',
    ])
  })

  test('reads the known files of a folder, whatever their format', async () => {
    const where = folder()
    file('a.owl', readFileSync(fixture('mills.rdf'), 'utf8'), where)
    file('b.owl', turtle('e:Ship a owl:Class .'), where)
    file('c.json', readFileSync(fixture('mills.jsonld'), 'utf8'), where)
    file('notes.txt', 'not an ontology', where)
    expect((await load(where)).ids).toEqual(['a', 'b', 'c'])
  })

  test('resolves relative IRIs against the IRI that elements without one get', async () => {
    const ontology = await load(file('shop.ttl', '<#Bread> a <http://www.w3.org/2002/07/owl#Class> .'))
    expect([...ontology.classes.keys()]).toEqual(['https://trustgraph.ai/ontology/shop#Bread'])
  })
})

describe('what is understood', () => {
  test('several parents, unions, inverses and superproperties', async () => {
    const ontology = await load(fixture('mills.ttl'))
    const kinds = [...ancestors(ontology, `${m}WaterMill`)].map((iri) => iri.slice(m.length))
    expect(kinds).toEqual(['WaterMill', 'Mill', 'Building', 'Machine'])
    expect(ontology.objectProperties.get(`${m}owns`)?.domain).toEqual([[`${m}Company`, `${m}Person`]])
    expect(ontology.objectProperties.get(`${m}ownedBy`)).toMatchObject({
      domain: [[`${m}Building`]],
      range: [[`${m}Company`, `${m}Person`]],
      inverses: [`${m}owns`],
    })
    const narrow = await load(
      file(
        'n.ttl',
        turtle(
          'e:A a owl:Class . e:p a owl:ObjectProperty ; rdfs:domain e:A . e:q a owl:ObjectProperty ; rdfs:subPropertyOf e:p .',
        ),
      ),
    )
    expect(narrow.objectProperties.get('http://example.org/e#q')?.domain).toEqual([
      ['http://example.org/e#A'],
    ])
  })

  test('several domains must all hold, and an intersection means the same', async () => {
    const ontology = await load(
      file(
        'n.ttl',
        turtle(
          'e:A a owl:Class . e:B a owl:Class . e:p a owl:ObjectProperty ; rdfs:domain e:A, e:B ; rdfs:range [ owl:intersectionOf (e:A e:B) ] .',
        ),
      ),
    )
    const both = [['http://example.org/e#A'], ['http://example.org/e#B']]
    expect(ontology.objectProperties.get('http://example.org/e#p')).toMatchObject({
      domain: both,
      range: both,
    })
  })

  test("schema.org's way of saying it: any of several domains, ranges of classes and of values", async () => {
    const text = `@prefix s: <https://schema.org/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
s:Text a s:DataType, rdfs:Class . s:Book a rdfs:Class ; rdfs:subClassOf s:Thing . s:Film a rdfs:Class . s:Person a rdfs:Class .
s:author a rdf:Property ; s:domainIncludes s:Book, s:Film ; s:rangeIncludes s:Person, s:Text .`
    const ontology = await load(file('schema.ttl', text))
    expect([...ontology.classes.values()].map(({ key }) => key)).toEqual(['Book', 'Film', 'Person'])
    const domain = [['https://schema.org/Book', 'https://schema.org/Film']]
    expect(ontology.objectProperties.get('https://schema.org/author')).toMatchObject({
      domain,
      range: [['https://schema.org/Person']],
    })
    expect(ontology.datatypeProperties.get('https://schema.org/author')).toMatchObject({
      domain,
      range: [['http://www.w3.org/2001/XMLSchema#string']],
    })
  })

  test('classes that are only mentioned are classes too, the terms of the languages are not', async () => {
    const ontology = await load(
      file(
        'n.ttl',
        turtle(
          'e:A rdfs:subClassOf owl:Thing, <http://xmlns.com/foaf/0.1/Agent> . e:p a owl:ObjectProperty ; rdfs:domain owl:Thing ; rdfs:range e:B .',
        ),
      ),
    )
    expect([...ontology.classes.values()].map(({ key }) => key)).toEqual(['A', 'Agent', 'B'])
    expect(ontology.objectProperties.get('http://example.org/e#p')?.domain).toEqual([])
  })

  test('what extraction cannot use is a note', async () => {
    const { notes } = await loadOntology([
      file(
        'n.ttl',
        turtle(
          '<http://example.org/e> owl:imports <http://example.org/other> . e:A a owl:Class . e:p a owl:ObjectProperty ; rdfs:domain [ owl:complementOf e:A ] .',
        ),
      ),
    ])
    expect(notes).toEqual([
      'n imports http://example.org/other, which is not fetched: load its file too',
      'n: 1 domains or ranges are no union or intersection of named classes, and bind nobody',
    ])
  })
})

describe('keys', () => {
  test('are the elements’ own names, with the ontology’s id only when two would be the same', async () => {
    const where = folder()
    const [sea, land] = [{ classes: { Vessel: {}, Master: {} } }, { classes: { Vessel: {}, Field: {} } }]
    const ontology = await load(
      file('sea.json', JSON.stringify(sea), where),
      file('land.json', JSON.stringify(land), where),
    )
    expect([...ontology.classes.values()].map(({ key }) => key)).toEqual([
      'Field',
      'Master',
      'land:Vessel',
      'sea:Vessel',
    ])
  })

  test('are unique and on one line, whatever the names', async () => {
    const names = ['a:b', 'x  y', 'x\ny', '__proto__', 'constructor', 'ключ']
    const classes = Object.fromEntries(names.map((name) => [name, {}]))
    const ontology = await load(file('odd.json', JSON.stringify({ classes })))
    const keys = [...ontology.classes.values()].map(({ key }) => key)
    expect(new Set(keys).size).toBe(names.length)
    expect(keys.every((key) => /^\S+( \S+)*$/.test(key))).toBe(true)
  })
})

describe('version', () => {
  test('depends on the content, not on the file, its format or its order', async () => {
    const [a, b] = ['e:A a owl:Class ; rdfs:label "a" .', 'e:B a owl:Class .']
    const version = async (name: string, text: string) => (await load(file(name, text))).version
    const known = await version('one.ttl', turtle(a + b))
    expect(await version('one.ttl', turtle(`# the other way round\n${b}\n${a}`))).toBe(known)
    expect(
      await version(
        'one.nt',
        '<http://example.org/e#A> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://www.w3.org/2002/07/owl#Class> .\n<http://example.org/e#B> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://www.w3.org/2002/07/owl#Class> .\n<http://example.org/e#A> <http://www.w3.org/2000/01/rdf-schema#label> "a" .\n',
      ),
    ).toBe(known)
    expect(await version('one.ttl', turtle(`${a}${b}e:C a owl:Class .`))).not.toBe(known)
    expect(known).toMatch(/^[0-9a-f]{32}$/)
  })

  test('is the same for files in another order', async () => {
    const where = folder()
    const paths = [
      file('a.ttl', turtle('e:A a owl:Class .'), where),
      file('b.ttl', turtle('e:B rdfs:subClassOf e:A .'), where),
    ] as const
    expect((await load(paths[1], paths[0])).version).toBe((await load(...paths)).version)
  })
})

describe('broken files', () => {
  test.each([
    ['x.ttl', turtle('e:A a owl:Class ;\n  rdfs:label "a" "b" .'), /^6 not Turtle: /],
    [
      'x.rdf',
      '<?xml version="1.0"?>\n<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">\n<rdf:Description>\n</rdf:RDF>',
      /^4 not RDF\/XML: /,
    ],
    ['x.json', '{\n  "classes": {\n    "A": {},\n  }\n}', /^4 not JSON: /],
    ['x.jsonld', '{\n  "@context": {}\n  "@id": "a" }', /^3 not JSON: /],
    ['x.jsonld', '{"@context": {"a": 5}, "@id": "urn:a", "a": "b"}', /^not JSON-LD: /],
    [
      'x.owl',
      '<?xml version="1.0"?>\n<Ontology xmlns="http://www.w3.org/2002/07/owl#"><Declaration/></Ontology>',
      /OWL\/XML/,
    ],
    ['x.ttl', turtle(''), /^it declares no class and no property$/],
    ['x.json', '[]', /^it declares no class and no property$/],
    ['x.json', '{"objectProperties": {"a": {}}}', /^it has properties but no class$/],
    ['x.json', '{"a": {"clases": {}}}', /^a must be an ontology/],
    ['x.json', '"text"', /^must be an object/],
  ])('%# %s is refused, with the place', async (name, text, problem) => {
    expect(await problemsOf(file(name, text))).toEqual([expect.stringMatching(problem)])
  })

  test('every fault of a JSON form is named by its keys', async () => {
    const value = {
      classes: { Mill: { 'rdfs:subClassOf': 'Bilding' }, Building: { uri: 'building' }, Person: 5 },
      objectProperties: {
        owns: { 'rdfs:domain': 'Building', 'rdfs:range': { class: 'Mill' }, 'owl:inverseOf': 'ownedBy' },
      },
      datatypeProperties: { opened: { 'rdfs:range': 'xsd:gYeer ish', 'rdfs:label': [7] } },
    }
    expect(await problemsOf(file('mills.json', JSON.stringify(value)))).toEqual([
      'classes.Building.uri must be an absolute IRI',
      'classes.Person must be an object',
      'classes.Mill.rdfs:subClassOf there is no class "Bilding"; did you mean "Building"?',
      'objectProperties.owns.rdfs:range must be a text, or a list of texts',
      'objectProperties.owns.owl:inverseOf there is no property "ownedBy"',
      'datatypeProperties.opened.rdfs:label must be a text, or a list of texts or of {value, lang}',
      'datatypeProperties.opened.rdfs:range there is no datatype "xsd:gYeer ish"',
    ])
  })

  test('a cycle of inheritance is refused at its first class; a subclass of itself is not a cycle', async () => {
    const path = file(
      'c.ttl',
      turtle(
        'e:A rdfs:subClassOf e:B, e:A . e:B rdfs:subClassOf e:C . e:C rdfs:subClassOf e:A . e:D rdfs:subClassOf e:A .',
      ),
    )
    expect(await problemsOf(path)).toEqual(['http://example.org/e#A it is a kind of itself: A > B > C > A'])
    const json = file(
      'c.json',
      JSON.stringify({ classes: { a: { 'rdfs:subClassOf': 'b' }, b: { 'rdfs:subClassOf': 'a' } } }),
    )
    expect(await problemsOf(json)).toEqual([expect.stringContaining('it is a kind of itself: a > b > a')])
    expect(
      await problemsOf(
        file('s.ttl', turtle('e:A a owl:Class ; rdfs:subClassOf e:A ; owl:equivalentClass e:B .')),
      ),
    ).toEqual([])
  })

  test('a remote context is never fetched', async () => {
    const path = file(
      'r.jsonld',
      JSON.stringify({ '@context': 'http://127.0.0.1:9/context', '@id': 'urn:a' }),
    )
    await expect(loadOntology([path])).rejects.toMatchObject({
      code: 'ontology_context_remote',
      message: expect.stringContaining('http://127.0.0.1:9/context'),
    })
    const scoped = {
      '@context': { '@version': 1.1, a: { '@id': 'urn:a', '@context': 'http://127.0.0.1:9/scoped' } },
      a: { '@id': 'urn:b' },
    }
    await expect(loadOntology([file('s.jsonld', JSON.stringify(scoped))])).rejects.toMatchObject({
      code: 'ontology_context_remote',
    })
  })

  test('files that are missing, not UTF-8, or have the id of another', async () => {
    const where = folder()
    mkdirSync(join(where, 'empty'))
    expect(await problemsOf(join(where, 'none.ttl'))).toEqual([
      expect.stringMatching(/^cannot be read: ENOENT/),
    ])
    expect(await problemsOf(join(where, 'empty'))).toEqual([expect.stringMatching(/the folder holds no /)])
    expect(await problemsOf(fixture('mills.ttl'), fixture('mills.rdf'))).toEqual([
      expect.stringMatching(/^its id "mills" is that of .*mills\.ttl too$/),
    ])
    const latin = file('latin.ttl', '')
    writeFileSync(latin, Buffer.from([0x23, 0xe9, 0x0a]))
    expect(await problemsOf(latin)).toEqual(['it is not UTF-8'])
  })

  test('all problems of all files are reported in one error', async () => {
    const where = folder()
    const [good, bad, worse] = [
      file('g.ttl', turtle('e:A a owl:Class .'), where),
      file('b.ttl', 'a b', where),
      file('w.json', '{', where),
    ]
    const error = await loadOntology([good, bad, worse]).catch((thrown) => thrown)
    expect(error).toMatchObject({
      code: 'ontology_invalid',
      message: expect.stringContaining(`${bad}:1: not Turtle`),
    })
    expect(error.details.problems).toHaveLength(2)
  })
})
