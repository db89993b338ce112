// Changed PDF, HTML, JSON-LD, RDF/XML and Turtle: each gives text or an error with a code. Inputs are read in a thread, since a process
// for each would be slow; what that thread does not bear, the product's own child process must, within its limits.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { deflateSync } from 'node:zlib'
import { extractText } from '../../src/documents/extract.ts'
import { type ErrorCode, toGraphmillError } from '../../src/errors.ts'
import { readOntologyBounded } from '../../src/ontology/bounded-load.ts'
import { deflatedBlanks, pdfOfStream } from '../support/pdf.ts'
import { below, chance, many, mutated, pick, type Rng, size, text } from './random.ts'
import type { FuzzTarget } from './target.ts'

export interface DocumentInput {
  readonly kind: 'application/pdf' | 'text/html' | 'jsonld' | 'rdf' | 'ttl'
  readonly bytes: Uint8Array
}

/** What came of an input: pages, or an error; both undefined where the thread ended. */
export interface Reading {
  readonly pages?: readonly string[]
  readonly code?: ErrorCode | undefined
  readonly message?: string | undefined
}

const limits = { memoryMb: 384, seconds: 10 }
const threadMs = 3000

export const documents: FuzzTarget = {
  name: 'documents',
  async once(rng) {
    const input = inputOf(rng)
    const { pages, code, message } = (await readInThread(input)) ?? (await readInProcess(input))
    assert.ok(pages !== undefined || code !== undefined)
    assert.notEqual(code, 'unexpected', message)
    if (code !== undefined) assert.match(code, /^(document|ontology)_/)
    for (const page of pages ?? []) assert.equal(typeof page, 'string')
  },
}

let worker: Worker | undefined

/** Undefined where the thread takes too long or too much. */
async function readInThread(input: DocumentInput): Promise<Reading | undefined> {
  worker ??= new Worker(new URL('./documents-worker.ts', import.meta.url), {
    resourceLimits: { maxOldGenerationSizeMb: 256, stackSizeMb: 64 },
    stdout: true,
    stderr: true,
  })
  const ended = new AbortController()
  worker.postMessage(input)
  const { signal } = ended
  const reading = await Promise.race([
    once(worker, 'message', { signal }).then(([said]) => said as Reading),
    once(worker, 'exit', { signal }).then(() => undefined),
    once(AbortSignal.timeout(threadMs), 'abort', { signal }).then(() => undefined),
  ]).catch(() => undefined)
  ended.abort()
  if (reading !== undefined) return reading
  const over = worker
  worker = undefined
  await over.terminate()
  return undefined
}

/** As the product reads it. */
async function readInProcess({ kind, bytes }: DocumentInput): Promise<Reading> {
  const { signal } = new AbortController()
  if (kind === 'text/html' || kind === 'application/pdf')
    return extractText({ bytes, mediaType: kind }, { name: 'input', limits, signal }).then(
      ({ text: read }) => ({ pages: [read] }),
      (thrown: unknown) => toGraphmillError(thrown),
    )
  const { problems } = await readOntologyBounded([{ path: `input.${kind}`, bytes }], limits)
  return { pages: [], code: problems[0]?.code }
}

const page = Buffer.from('BT /F1 12 Tf 40 350 Td (A mill grinds.) Tj 0 -14 Td [(It) -250 (turns)] TJ ET')
const flat = { dictionary: '/Filter /FlateDecode' }
const objects = deflateSync(
  Buffer.from('7 0 8 40 << /Type /Pages /Kids [8 0 R] /Count 1 >>   << /Type /Page /Parent 7 0 R >>'),
)
const pdfs = [
  pdfOfStream(page, { dictionary: '' }),
  pdfOfStream(deflateSync(page), flat),
  pdfOfStream(deflateSync(deflateSync(page)), { dictionary: '/Filter [/FlateDecode /FlateDecode]' }),
  pdfOfStream(Buffer.from(`${page.toString('hex')}>`), {
    dictionary: '/Filter 5 0 R',
    more: '5 0 obj /ASCIIHexDecode endobj',
  }),
  pdfOfStream(objects, { dictionary: '/Type /ObjStm /N 2 /First 9 /Filter /FlateDecode' }),
  pdfOfStream(deflatedBlanks(16), flat),
]

const html = [
  '<!DOCTYPE html><html><head><meta charset="utf-8"><title>T</title></head><body>',
  '<table><caption>c</caption><thead><tr><th rowspan=3>a</th></tr></thead>',
  '<tr><td colspan="2">b<td colspan=100000000 rowspan=-1>c</table>',
  '<table><tr><td><table><tr><td rowspan=9e9>x</table></table>',
  '<p>A <a href="x">mill</a> &amp; &#x1F989; &#xD800; &#99999999;</p>',
  '<ul><li>1<ol start=99999999999><li>2</ol></ul>',
  '<pre>\n a </pre><blockquote><h1>h</h1>',
  '<div>',
  '</div>',
  '<!-- ',
  '-->',
  '<script>',
  '<![CDATA[',
  '<svg><style>',
] as const

const jsonld = [
  '{"@context":{"@vocab":"urn:","sub":{"@id":"http://www.w3.org/2000/01/rdf-schema#subClassOf","@type":"@id"}},"@graph":[',
  '{"@id":"urn:a","@type":"http://www.w3.org/2002/07/owl#Class","sub":["urn:b"]},',
  '{"@id":"urn:a","p":{"@list":[1,{"@value":"x","@language":"de"}]}}',
  '"@context":"http://remote.example/",',
  '"@reverse":{"p":{}},',
  '"@type":["@json"],',
  '[',
  ']',
  '{"a":',
  '}',
  ',',
] as const

const rdfXml = [
  '<?xml version="1.0"?><!DOCTYPE r [<!ENTITY o "http://www.w3.org/2002/07/owl#"><!ENTITY p "&o;&o;">]>',
  '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:owl="http://www.w3.org/2002/07/owl#" xmlns:e="urn:">',
  '<owl:Class rdf:about="urn:a"><e:p rdf:resource="&o;Class"/>',
  '<e:p rdf:parseType="Collection"><e:A/><e:A rdf:ID="x"/></e:p>',
  '<e:p rdf:parseType="Literal"><b/></e:p>',
  '</owl:Class>',
  '<e:A><e:p>',
  '</e:p></e:A>',
  '</rdf:RDF>',
  '&#0;',
  '&p;',
] as const

const turtle = [
  '@prefix owl: <http://www.w3.org/2002/07/owl#> . @prefix s: <http://www.w3.org/2000/01/rdf-schema#> . ',
  '<urn:a> a owl:Class ; s:subClassOf [ owl:unionOf ( <urn:b> <urn:c> ) ] . ',
  '<urn:p> a owl:ObjectProperty ; s:domain _:x . _:x owl:intersectionOf ( _:x _:x ) . ',
  '<urn:a> s:subClassOf <urn:b> . <urn:b> s:subClassOf <urn:a> . ',
  '<urn:l> s:label "a"@de-x, """b\n""", 1e9, <<<urn:a> <urn:b> <urn:c>>> . ',
  '( ',
  '[ <urn:q> ',
  ']',
  '. ',
  '; ',
] as const

/** Whole ontologies, of which a change or two often leaves something to read. */
const wholes = {
  jsonld: `${jsonld[0]}${jsonld[1]}{"@id":"urn:b","@type":"http://www.w3.org/2002/07/owl#Class"}]}`,
  rdf: `${rdfXml[0]}${rdfXml[1]}${rdfXml[2]}${rdfXml[3]}</owl:Class></rdf:RDF>`,
  ttl: turtle.slice(0, 5).join(''),
} as const

function inputOf(rng: Rng): DocumentInput {
  const kind = pick(rng, ['application/pdf', 'text/html', 'jsonld', 'rdf', 'ttl'] as const)
  switch (kind) {
    case 'application/pdf':
      return { kind, bytes: pdfOf(rng) }
    case 'text/html':
      return { kind, bytes: textOf(rng, html) }
    case 'jsonld':
      return { kind, bytes: chance(rng, 0.4) ? wholeOf(rng, wholes.jsonld) : textOf(rng, jsonld) }
    case 'rdf':
      return { kind, bytes: chance(rng, 0.4) ? wholeOf(rng, wholes.rdf) : textOf(rng, rdfXml) }
    case 'ttl':
      return { kind, bytes: chance(rng, 0.4) ? wholeOf(rng, wholes.ttl) : textOf(rng, turtle) }
    default:
      return kind satisfies never
  }
}

function pdfOf(rng: Rng): Uint8Array {
  const bytes = pick(rng, pdfs)
  if (chance(rng, 0.1)) return bytes.subarray(0, below(rng, bytes.length))
  return Uint8Array.from(mutated(rng, bytes))
}

const wholeOf = (rng: Rng, whole: string) =>
  Uint8Array.from(chance(rng, 0.2) ? Buffer.from(whole) : mutated(rng, Buffer.from(whole)))

/** The head, as a rule, then pieces in any order, one of them many times over now and then; changed now and then. */
function textOf(rng: Rng, pieces: readonly string[]): Uint8Array {
  const parts = many(1 + size(rng, 30), () =>
    chance(rng, 0.1) ? text(rng, size(rng, 20)) : pick(rng, pieces),
  )
  if (chance(rng, 0.8)) parts.unshift(pieces[0]!, pieces[1]!)
  if (chance(rng, 0.1)) parts.splice(below(rng, parts.length), 0, pick(rng, parts).repeat(size(rng, 3000)))
  const bytes = Buffer.from(parts.join(''))
  return chance(rng, 0.4) ? Uint8Array.from(mutated(rng, bytes)) : bytes
}
