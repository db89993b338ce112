// Requests and replies between our processors and TrustGraph's: the id that is repeated, what our readers know, deadlines and errors.
import { describe, expect, test } from 'vitest'
import { emptyHeader, type Message } from '../../src/messages/envelope.ts'
import { readMessage, type WireBytes, type WireType, writeMessage } from '../../src/trustgraph/codec.ts'
import { readRequestId, receiverOf } from '../../src/trustgraph/request-id.ts'

const receipt = { topic: 'response:tg:prompt:ws:f', workspace: 'ws', flow: 'f', time: 1_795_343_015_233 }
const read = (type: WireType, value: object, headers: Record<string, string>) =>
  readMessage(type, { body: Buffer.from(JSON.stringify(value)), headers }, receipt)
const jsonOf = ({ body }: WireBytes) => JSON.parse(Buffer.from(body).toString()) as Record<string, unknown>

const context = { unit: 'extract-rows:Città', part: '0', index: '3', 'graphmill-signature': 'a.b' }
const grounding = { names: ['entity'], sentences: [], offset: 5, start: 4, pages: [0], firstPage: 1 }
const request: Message<'PromptRequest'> = {
  ...emptyHeader,
  ...{ id: 'req-1', source: 'extract-rows', time: receipt.time, workspace: 'ws', flow: 'f' },
  ...{ collection: 'c', documentId: 'urn:doc:1', chunkId: 'urn:chunk:1', correlationId: 'req-1' },
  deadline: 12,
  type: 'PromptRequest',
  payload: {
    promptId: 'extract-rows',
    terms: { text: '"x"' },
    streaming: true,
    context,
    grounding,
    repeat: true,
  },
}

describe('a request of ours', () => {
  const sent = writeMessage(request, 'extract-rows')
  const id = sent.headers['id']!

  test('has an id of its receiver, with all that the reply must bring back', () => {
    expect(id).toMatch(/^gm1\.extract-rows\.[\w-]+$/)
    expect(receiverOf(id)).toBe('extract-rows')
    expect(readRequestId(id)).toEqual({
      header: {
        correlationId: 'req-1',
        collection: 'c',
        documentId: 'urn:doc:1',
        chunkId: 'urn:chunk:1',
        deadline: 12,
      },
      promptId: 'extract-rows',
      context,
    })
    expect(writeMessage(request, 'extract-rows').headers['id']).toBe(id)
  })

  test('asks TrustGraph for a whole reply, and our prompt processor for parts, grounding and repeats', () => {
    expect(jsonOf(sent)).toEqual({
      ...{ id: 'extract-rows', terms: { text: '"x"' }, streaming: false },
      graphmill: { streaming: true, grounding, repeat: true },
    })
    expect(readMessage('PromptRequest', sent, receipt)).toEqual(request)
  })

  test('has the place and context of its chunk in the reply of TrustGraph’s prompt processor', () => {
    const body = { error: null, text: null, object: '[{"a": NaN}]', end_of_stream: true, in_token: 3 }
    const reply = read('PromptResponse', body, { id })
    expect(reply).toMatchObject({
      ...{ source: 'trustgraph', correlationId: 'req-1', documentId: 'urn:doc:1', chunkId: 'urn:chunk:1' },
      ...{ collection: 'c', deadline: 12 },
      payload: {
        ...{ promptId: 'extract-rows', context, object: '[{"a":null}]', endOfStream: true, seq: 0 },
        ...{ incomplete: null, finishReason: null, usage: { promptTokens: 3 } },
      },
    })
    const again = read('PromptResponse', { ...body, object: '[]' }, { id })
    expect(again.id).not.toBe(reply.id)
    expect(again.payload).toMatchObject({ run: (reply.payload as { run: unknown }).run })
  })

  test('has the same id in the reply of ours, whatever became of the request’s', () => {
    const { payload, ...header } = readMessage('PromptRequest', sent, receipt) as Message<'PromptRequest'>
    const reply = read('PromptResponse', { object: '[]' }, { id }) as Message<'PromptResponse'>
    const written = writeMessage(
      {
        ...{ ...header, id: 'reply-1', source: 'prompt', causationId: 'req-1', type: 'PromptResponse' },
        payload: { ...reply.payload, promptId: payload.promptId, context: payload.context },
      },
      'extract-rows',
    )
    expect(written.headers['id']).toBe(id)
  })

  test.each(['gm1.extract-rows.bm8', 'gm1.extract-rows.W10'])('%s as an id is undecodable', (id) => {
    expect(() => read('PromptResponse', {}, { id })).toThrow(
      expect.objectContaining({ code: 'bytes_undecodable' }),
    )
  })

  test.each(['gm1', 'gm1.x', 'gm1.X.e30', 'gm2.x.e30', 'x-gm1.x.e30'])('does not have the id %s', (id) => {
    expect(receiverOf(id)).toBeUndefined()
    expect(read('PromptResponse', {}, { id })).toMatchObject({ correlationId: id, chunkId: '' })
  })
})

describe('a request of TrustGraph', () => {
  test('is waited for as long as its client waits', () => {
    expect(read('PromptRequest', { id: 'p' }, { id: 'r' }).deadline).toBe(receipt.time + 600_000)
    expect(read('TextCompletionRequest', { prompt: 'p' }, { id: 'r' }).deadline).toBe(receipt.time + 600_000)
    expect(read('PromptResponse', {}, { id: 'r' }).deadline).toBeNull()
    expect(read('PromptRequest', { id: 'p' }, { id: 'r', 'gm-source': 'ours' }).deadline).toBeNull()
  })

  test.each(['PromptResponse', 'TextCompletionResponse'] as const)('gets errors of ours in %s', (type) => {
    const ours = { type: 'llm_quota_exhausted', message: 'No credit: none at all.\nSorry' }
    const theirs = { type: 'llm-error', message: 'llm_quota_exhausted: No credit: none at all.\nSorry' }
    const message = read(type, { error: theirs }, { id: 'r' })
    expect(message.payload).toMatchObject({ error: ours })
    expect(jsonOf(writeMessage(message))).toMatchObject({ error: theirs })
    for (const error of [
      { type: 'not-implemented', message: 'x' },
      { type: 'llm-error', message: 'JSON parse fail: x' },
      { type: 'llm-error', message: 'toString: x' },
    ])
      expect(read(type, { error }, { id: 'r' }).payload).toMatchObject({ error })
  })
})
