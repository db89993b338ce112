import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { emptyHeader } from '../../src/messages/envelope.ts'
import { readMessage, type WireMessage, type WireType, writeMessage } from '../../src/trustgraph/codec.ts'

const receipt = { topic: 'flow:tg:x:ws:f', workspace: 'ws', flow: 'f', time: 1_795_343_015_233 }
const read = (type: WireType, value: unknown, headers: Record<string, string> = { id: 'r-1' }) =>
  readMessage(type, { body: Buffer.from(JSON.stringify(value)), headers }, receipt)
const jsonOf = (body: Uint8Array): unknown => JSON.parse(Buffer.from(body).toString())

const term = (type: string, fields: object) => ({
  ...{ type, iri: '', id: '', value: '', datatype: '', language: '', triple: null },
  ...fields,
})
const triple = {
  s: term('i', { iri: 'http://trustgraph.ai/e/mill' }),
  p: term('i', { iri: 'http://www.w3.org/2000/01/rdf-schema#label' }),
  o: term('l', { value: '', language: 'en' }),
  g: 'urn:graph:source',
}
const metadata = { id: 'urn:chunk:1', root: 'urn:doc:1', collection: 'c' }
const tokens = { in_token: 3, out_token: null, model: 'm' }

/** One message of each type, as TrustGraph writes it. */
const examples: readonly (readonly [WireType, object])[] = [
  ['TextDocument', { metadata: { ...metadata, id: 'urn:doc:1' }, text: 'It grinds.', document_id: '' }],
  ['Chunk', { metadata, chunk: 'It grinds.', document_id: 'urn:chunk:1', attributes: { a: 'x', b: ['y'] } }],
  [
    'Triples',
    {
      metadata,
      triples: [triple, { ...triple, s: term('t', { triple }), o: term('b', { id: 'n' }), g: null }],
    },
  ],
  [
    'EntityContexts',
    {
      metadata,
      entities: [
        { entity: triple.s, context: 'Mill', chunk_id: '', rdf_type: ['urn:M'], attributes: { k: ['v'] } },
      ],
    },
  ],
  [
    'Rows',
    {
      metadata: { ...metadata, id: 'urn:chunk:1:S' },
      schema_name: 'S',
      values: [{ a: '1' }, {}],
      confidence: 0.8,
      source_span: 'It',
    },
  ],
  ['PromptRequest', { id: 'p', terms: { text: '"x"' }, streaming: true }],
  ['PromptResponse', { error: null, text: null, object: '[]', end_of_stream: true, ...tokens }],
  [
    'PromptResponse',
    {
      error: { type: 'llm-error', message: 'no' },
      text: null,
      object: null,
      end_of_stream: true,
      in_token: null,
      out_token: null,
      model: null,
    },
  ],
  [
    'TextCompletionRequest',
    {
      operation: 'completion',
      system: '',
      prompt: 'x',
      streaming: false,
      response_format: 'json',
      schema: { type: 'object' },
    },
  ],
  [
    'TextCompletionResponse',
    { error: null, response: 'x', ...tokens, end_of_stream: false, models: [{ id: 'm', name: null }] },
  ],
]

describe('a message of TrustGraph', () => {
  test.each(examples)('%s is the same after it was ours', (type, value) => {
    const { body, headers } = writeMessage(read(type, value))
    expect(jsonOf(body)).toEqual(value)
    if (/Request|Response/.test(type)) expect(headers['id']).toBe('r-1')
    else expect(headers).not.toHaveProperty('id')
  })

  test('has its place in the header of ours', () => {
    for (const [type, value] of examples.slice(1, 5))
      expect(read(type, value)).toMatchObject({
        ...{
          type,
          workspace: 'ws',
          flow: 'f',
          collection: 'c',
          documentId: 'urn:doc:1',
          chunkId: 'urn:chunk:1',
        },
        ...{ source: 'trustgraph', time: receipt.time },
      })
    expect(read('Chunk', { metadata: { id: 'm' }, chunk: 'x', document_id: '' })).toMatchObject({
      ...{ chunkId: 'm', documentId: 'm', collection: '' },
      payload: { part: 0, index: 0, offset: 0, length: 1, page: null, text: 'x', attributes: {} },
    })
  })

  test('has an id that a repeat has too, and other content, topics and requests have not', () => {
    const [type, value] = examples[5]!
    const { id } = read(type, value)
    expect(read(type, value).id).toBe(id)
    expect(read(type, { ...value, streaming: false }).id).not.toBe(id)
    expect(read(type, value, { id: 'r-2' }).id).not.toBe(id)
    const elsewhere = readMessage(
      type,
      { body: Buffer.from(JSON.stringify(value)), headers: { id: 'r-1' } },
      { ...receipt, topic: 'flow:tg:y:ws:f' },
    )
    expect(elsewhere.id).not.toBe(id)
  })

  test('may lack fields, have null for them, and have unknown ones', () => {
    expect(read('PromptRequest', { id: 'p', terms: null, more: { a: 1 } }).payload).toMatchObject({
      ...{ promptId: 'p', terms: {}, streaming: false },
    })
    expect(read('Triples', { triples: null }).payload).toEqual({ triples: [] })
    expect(read('TextCompletionRequest', { prompt: 'x' }).payload).toMatchObject({
      operation: 'completion',
      schema: null,
    })
  })

  test('may hold numbers that JSON has not', () => {
    const body = Buffer.from(
      `{"schema_name":"S","values":[{"a":"1"}],"confidence":NaN,"x":[Infinity,1${'0'.repeat(400)}]}`,
    )
    const message = readMessage('Rows', { body, headers: {} }, receipt)
    expect(message.payload).toMatchObject({ confidence: 0, values: [{ a: '1' }] })
    const large = Buffer.from(`{"object":"[]","in_token":1e999,"out_token":${'9'.repeat(400)}}`)
    const reply = readMessage('PromptResponse', { body: large, headers: { id: 'r-1' } }, receipt)
    expect(reply.payload).toMatchObject({ object: '[]', usage: null })
    const { payload } = read('PromptResponse', { in_token: 1.5, out_token: 7 })
    expect(payload).toMatchObject({ usage: { promptTokens: null, completionTokens: 7 } })
  })

  test('may hold NaN and Infinity in lists and objects, but not in texts', () => {
    const body = `{"attributes":{"a":[NaN,-Infinity,1],"b":"NaN \\" Infinity \\\\"},"chunk":"-Infinity"}`
    const { payload } = readMessage('Chunk', { body: Buffer.from(body), headers: {} }, receipt)
    expect(payload).toMatchObject({
      attributes: { a: '[null,null,1]', b: JSON.stringify('NaN " Infinity \\') },
      text: '-Infinity',
    })
    for (const broken of ['{"chunk":NaNa}', '{"chunk":"NaN', '{"chunk":-NaN}', '{"a":nan,"b":NaN}'])
      expect(() => readMessage('Chunk', { body: Buffer.from(broken), headers: {} }, receipt)).toThrow(
        expect.objectContaining({ code: 'bytes_undecodable' }),
      )
  })

  test('has U+FFFD for half of a surrogate pair, also in the JSON text of a reply', () => {
    const chunk = read('Chunk', {
      metadata: { ...metadata, collection: 'c\ud800' },
      chunk: 'a \ud83d cat \ud83d\ude3a',
    })
    expect(chunk).toMatchObject({
      collection: 'c\ufffd',
      payload: { text: 'a \ufffd cat \ud83d\ude3a', length: 10 },
    })
    const lines: [string, string][] = [
      [
        '[{"a":"\\ud83d\\ude3a \\ude3a \\uD83D","n":12345678901234567890}]',
        '[{"a":"\\ud83d\\ude3a \\ufffd \\ufffd","n":12345678901234567890}]',
      ],
      ['["\\\\ud83d", "\\n\\ud83d"]', '["\\\\ud83d", "\\n\\ufffd"]'],
      ['["\\ud83d", NaN]', '["\ufffd",null]'],
    ]
    for (const [object, expected] of lines)
      expect(read('PromptResponse', { object }).payload).toMatchObject({ object: expected })
  })

  test('may have a field `graphmill` that is none of ours: it is left out', () => {
    for (const graphmill of [
      { accepted: 'many', rejected: 2 },
      { rejections: { schema: 'x' } },
      { spent: [{ calls: 1 }] },
      { groundings: [{}] },
      { cause: 'none' },
      { incomplete: 7 },
    ])
      expect(read('PromptResponse', { object: '[]', graphmill }).payload).toEqual(
        read('PromptResponse', { object: '[]' }).payload,
      )
    const grounding = { names: 'entity', offset: -1.5 }
    expect(read('PromptRequest', { id: 'p', graphmill: { grounding } }).payload).toMatchObject({
      promptId: 'p',
      grounding: null,
    })
    const rows = {
      schema_name: 'S',
      values: [{ a: '1' }],
      graphmill: { typed: [1], source: { offset: 'x' } },
    }
    expect(read('Rows', rows).payload).toMatchObject({
      schemaName: 'S',
      typed: [],
      sourceSpan: { offset: 0 },
    })
  })

  test.each([
    ['no JSON', 'PromptRequest', '{', { id: 'x' }],
    ['a list', 'PromptRequest', '[]', { id: 'x' }],
    ['no UTF-8', 'Chunk', Buffer.from([0x7b, 0xff]), {}],
    ['a request without id', 'PromptRequest', '{"id":"p"}', {}],
    ['text where a list belongs', 'Triples', '{"triples":"x"}', {}],
    ['nested without end', 'Chunk', `{"x":${'['.repeat(100_000)}`, {}],
    ['nested too deeply', 'Chunk', `{"attributes":{"a":${'['.repeat(100_000)}${']'.repeat(100_000)}}}`, {}],
    ['a document that is with the librarian', 'TextDocument', '{"document_id":"urn:d"}', {}],
  ] as const)('%s is undecodable', (_, type, body, headers) => {
    expect(() => readMessage(type, { body: Buffer.from(body), headers }, receipt)).toThrow(
      expect.objectContaining({ code: 'bytes_undecodable' }),
    )
  })
})

describe('a message of ours', () => {
  const header = {
    ...emptyHeader,
    ...{
      id: 'id-1',
      source: 'emit-triples',
      time: receipt.time,
      workspace: 'ws',
      flow: 'f',
      collection: 'c',
    },
    ...{ documentId: 'd', chunkId: 'd/0/1', causationId: 'cause', deadline: 5, traceparent: '00-a-b-01' },
  }
  const run = { id: 'run-1', startedAt: 7 }

  test('is the same after it was TrustGraph’s: ids, run, trace and what only our readers know', () => {
    const usage = {
      promptTokens: 1,
      completionTokens: 2,
      totalTokens: null,
      spent: [{ reason: 'reask', model: 'm', calls: 1, promptTokens: 3, completionTokens: 4 }],
    }
    const counts = {
      finishReason: 'length',
      truncated: true,
      accepted: 3,
      rejected: 1,
      rejections: { schema: 1 },
      repaired: 0,
      duplicates: 0,
      reasked: 0,
      incomplete: 'truncated',
      cause: { type: 'max_cost', message: 'The limit is reached.' },
      outputMode: null,
      groundings: [],
      repeated: -1,
    }
    const reply = {
      ...header,
      ...{ correlationId: 'request-1', collection: '', documentId: '', chunkId: '', type: 'PromptResponse' },
      payload: {
        promptId: 'p',
        run,
        seq: 2,
        text: null,
        object: '[]',
        endOfStream: true,
        usage,
        model: 'm',
        error: null,
        context: {},
        ...counts,
      },
    } as unknown as WireMessage
    const bytes = writeMessage(reply)
    expect(bytes.headers).toMatchObject({
      id: 'request-1',
      'gm-id': 'id-1',
      'gm-run': 'run-1 7',
      'gm-seq': '2',
    })
    expect(readMessage('PromptResponse', bytes, receipt)).toEqual(reply)

    const rows = {
      ...{ ...header, type: 'Rows' },
      payload: {
        run,
        model: 'm',
        schemaName: 'S',
        values: [{ a: '1' }],
        typed: ['{"a":1}'],
        confidence: 0.8,
        sourceSpan: { offset: 3, length: 4, text: 'x' },
        groundings: [{ status: 'ungrounded', spans: [], chunk: null }],
      },
    } as unknown as WireMessage
    expect(readMessage('Rows', writeMessage(rows), receipt)).toEqual(rows)
  })

  test('does not remove a document: that is refused before anything is published', () => {
    const payload = { title: '', uri: '', mediaType: 'text/plain', text: '' }
    const message = (removed: string | null) =>
      ({ ...header, type: 'TextDocument', payload: { ...payload, removed } }) as unknown as WireMessage
    expect(() => writeMessage(message('removed'))).toThrow(expect.objectContaining({ code: 'usage' }))
    expect(jsonOf(writeMessage(message(null)).body)).toMatchObject({ text: '' })
  })

  test('has U+FFFD for half of a surrogate pair, which TrustGraph cannot write', () => {
    const context = {
      entity: {
        type: 'i',
        iri: 'urn:x',
        id: null,
        value: null,
        datatype: null,
        language: null,
        triple: null,
      },
      context: 'a\ud800',
      chunkId: '',
      rdfType: [],
      attributes: {},
    }
    const { body } = writeMessage({ ...header, type: 'EntityContexts', payload: { entities: [context] } })
    expect(jsonOf(body)).toMatchObject({ entities: [{ context: 'a\ufffd' }] })
  })
})

const folder = '../shared/cases/trustgraph'
const typeOfFile: Readonly<Record<string, WireType>> = { ExtractedObject: 'Rows' }
/** Types of TrustGraph that none of ours stands for, and why. Those of its configuration are in `config-service.test.ts`. */
const withoutOurs: Readonly<Record<string, string>> = {
  AgentRequest: 'extract-agent-kg asks the prompt service itself, and graphmill has no agent',
  AgentResponse: 'as AgentRequest',
  ConfigPush: 'read in src/trustgraph/config-service.ts',
  ConfigRequest: 'written in src/trustgraph/config-service.ts',
  ConfigResponse: 'read in src/trustgraph/config-service.ts',
  EmbeddingsRequest: 'extract-ontology compares words, or asks an embeddings server over HTTP',
  EmbeddingsResponse: 'as EmbeddingsRequest',
  GraphEmbeddings: 'graphmill makes no vectors: TrustGraph makes them of our entity contexts',
  LibrarianRequest: 'graphmill has no librarian: its chunker takes inline text, and saves no chunks',
}

interface Captured {
  readonly kafka_headers?: readonly (readonly [string, string])[]
  readonly value: unknown
}

describe.skipIf(!existsSync(folder))('what TrustGraph 2.11.1 wrote', () => {
  const all = existsSync(folder) ? readdirSync(folder) : []
  const nameOf = (file: string) => file.split('.')[0]!
  const files = all.filter((file) => !Object.hasOwn(withoutOurs, nameOf(file)))

  test('each type is ours, or there is a reason why it is not', () => {
    expect(files.length).toBeGreaterThan(30)
    expect(Object.keys(withoutOurs)).toEqual(
      [...new Set(all.map(nameOf))].filter((name) => name in withoutOurs),
    )
  })

  test.each(files)('%s', (file) => {
    const captured = JSON.parse(readFileSync(`${folder}/${file}`, 'utf8')) as Captured & {
      messages?: Captured[]
    }
    const name = nameOf(file)
    const type = typeOfFile[name] ?? (name as WireType)
    for (const { value, kafka_headers = [] } of captured.messages ?? [captured]) {
      const message = read(type, value, Object.fromEntries(kafka_headers))
      const { body, headers } = writeMessage(message)
      expect(jsonOf(body)).toEqual(value)
      expect(headers).toMatchObject(Object.fromEntries(kafka_headers))
      expect(readMessage(type, { body, headers }, receipt)).toEqual(message)
    }
  })
})
