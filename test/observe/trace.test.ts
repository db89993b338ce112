import { AsyncLocalStorage } from 'node:async_hooks'
import { type Context, context, ROOT_CONTEXT, trace } from '@opentelemetry/api'
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace'
import { afterEach, describe, expect, test } from 'vitest'
import { startSpan } from '../../src/observe/trace.ts'
import { keepSecret } from '../../src/redact.ts'
import { openExtraction } from '../support/extraction.ts'
import { startLlmServer } from '../support/llm-server.ts'

const parent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
const pattern = /^00-[\da-f]{32}-[\da-f]{16}-01$/

describe('without an SDK', () => {
  test('a traceparent travels on unchanged', () => {
    const span = startSpan('x', { kind: 'consumer', parent })
    expect(span.traceparent).toBe(parent)
    span.end()
  })

  test.each([
    null,
    undefined,
    '',
    'nonsense',
    '00-00000000000000000000000000000000-b7ad6b7169203331-01',
    '00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01',
    'ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    `${parent}-more`,
  ])('a trace begins when there is no valid one: %s', (given) => {
    const { traceparent, traceId } = startSpan('x', {
      kind: 'consumer',
      ...(given !== undefined && { parent: given }),
    })
    expect(traceparent).toMatch(pattern)
    expect(traceparent).toContain(traceId)
    expect(traceparent).not.toContain('0af7651916cd43dd8448eb211c80319c')
  })

  test('of a later version, the fields of version 00 are read', () => {
    expect(startSpan('x', { kind: 'consumer', parent: `cc${parent.slice(2)}-what-ever` }).traceparent).toBe(
      parent,
    )
  })

  test('every message of a document has the trace of its document', async () => {
    await using llm = await startLlmServer()
    const extraction = await openExtraction(llm.url)
    try {
      const flow = await extraction.start()
      await extraction.load('The mill stands by the river. The miller grinds the grain.')
      await extraction.finished()
      const names = (await flow.broker.listTopics('gm.')).filter(({ name }) => name !== 'gm.notify.schemas')
      const messages = (await Promise.all(names.map(({ name }) => flow.all(name)))).flat()
      expect(new Set(messages.map(({ type }) => type))).toContain('Triples')
      const traces = new Set(messages.map(({ traceparent }) => traceparent))
      expect(traces.size).toBe(1)
      expect([...traces][0]).toMatch(pattern)
    } finally {
      await extraction.stop()
    }
  })
})

describe('with an SDK', () => {
  const exporter = new InMemorySpanExporter()
  const useSdk = () => {
    trace.setGlobalTracerProvider(
      new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] }),
    )
    const active = new AsyncLocalStorage<Context>()
    context.setGlobalContextManager({
      active: () => active.getStore() ?? ROOT_CONTEXT,
      with: (inner, work, self, ...args) => active.run(inner, () => work.call(self as never, ...args)),
      bind: (_, target) => target,
      enable() {
        return this
      },
      disable() {
        return this
      },
    })
  }
  afterEach(() => {
    trace.disable()
    context.disable()
    exporter.reset()
  })

  test('a span is a child of its cause, and its own traceparent is passed on', () => {
    useSdk()
    const span = startSpan('extract-topics chunk', {
      kind: 'consumer',
      parent,
      attributes: () => ({ a: 'b', c: '' }),
    })
    span.end()
    const [sent] = exporter.getFinishedSpans()
    expect(sent).toMatchObject({ name: 'extract-topics chunk', attributes: { a: 'b' } })
    expect(sent!.attributes).not.toHaveProperty('c')
    expect(sent!.parentSpanContext?.spanId).toBe('b7ad6b7169203331')
    expect(span.traceparent).toBe(`00-0af7651916cd43dd8448eb211c80319c-${sent!.spanContext().spanId}-01`)
  })

  test('a failure is recorded in the span', () => {
    useSdk()
    startSpan('x', { kind: 'client' }).end(new Error('away'))
    expect(exporter.getFinishedSpans()[0]).toMatchObject({ status: { code: 2, message: 'away' } })
  })

  test('a failure that names a secret is recorded without it', () => {
    useSdk()
    keepSecret('sk-in-a-span-0123', 'test')
    startSpan('x', { kind: 'client' }).end(new Error('no sk-in-a-span-0123', { cause: 'sk-in-a-span-0123' }))
    const [{ status, events } = {} as never] = exporter.getFinishedSpans()
    expect(status).toEqual({ code: 2, message: 'no [secret]' })
    expect(JSON.stringify(events)).toContain('no [secret]')
    expect(JSON.stringify(events)).not.toContain('in-a-span')
  })

  test('what a program does inside its own span belongs to its trace', () => {
    useSdk()
    const own = trace.getTracer('program').startSpan('own')
    const span = context.with(trace.setSpan(ROOT_CONTEXT, own), () => startSpan('x', { kind: 'producer' }))
    expect(span.traceId).toBe(own.spanContext().traceId)
  })

  test('a message without a trace begins one, whatever was active when its consumer was started', () => {
    useSdk()
    const own = trace.getTracer('program').startSpan('own')
    const span = context.with(trace.setSpan(ROOT_CONTEXT, own), () =>
      startSpan('x', { kind: 'consumer', parent: null }),
    )
    expect(span.traceId).not.toBe(own.spanContext().traceId)
  })

  test('other libraries find the span active, also after an await', async () => {
    useSdk()
    const span = startSpan('x', { kind: 'consumer', parent })
    const found = await span.within(async () => {
      await Promise.resolve()
      return trace.getActiveSpan()?.spanContext().traceId
    })
    expect(found).toBe('0af7651916cd43dd8448eb211c80319c')
  })
})
