// Tracing by OpenTelemetry's api alone; whoever wants spans brings the SDK. Without one a trace is still begun where a document or
// a request enters, and its `traceparent` travels on unchanged.
import { randomFillSync } from 'node:crypto'
import {
  type Attributes,
  context,
  isSpanContextValid,
  ROOT_CONTEXT,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api'
import { redactError } from '../redact.ts'
import { version } from '../version.ts'

export interface SpanOptions {
  /** `producer` for what puts messages on a topic, `consumer` for what handles one, `client` for what awaits its reply. */
  readonly kind: 'producer' | 'consumer' | 'client'
  /** The `traceparent` of what led to this; null: a new trace begins. Default: the active span of the caller, if there is one. */
  readonly parent?: string | null
  /** Only asked for where the span is recorded. Texts that are empty are left out. */
  readonly attributes?: () => Attributes
}

/** A step of a trace. */
export interface Span {
  /** For the messages that this step leads to: W3C Trace Context, version 00. */
  readonly traceparent: string
  /** 32 hexadecimal digits, for logs. */
  readonly traceId: string
  /** Runs `work` with this as the active span, so that spans of other libraries hang below it. */
  within<T>(work: () => T): T
  /** Ends it; with an error where it failed. */
  end(error?: Error): void
}

const kinds = { producer: SpanKind.PRODUCER, consumer: SpanKind.CONSUMER, client: SpanKind.CLIENT }

/** @example const span = startSpan('extract-topics chunk', { kind: 'consumer', parent: message.traceparent }) */
export function startSpan(name: string, { kind, parent, attributes }: SpanOptions): Span {
  const before = parentOf(parent)
  const root = parent === undefined ? context.active() : ROOT_CONTEXT
  const above = before ? trace.setSpanContext(root, before) : root
  const span = trace.getTracer('graphmill', version).startSpan(name, { kind: kinds[kind] }, above)
  if (attributes && span.isRecording())
    for (const [key, value] of Object.entries(attributes()))
      if (value !== undefined && value !== '') span.setAttribute(key, value)
  const own = span.spanContext()
  const here = isSpanContextValid(own) ? own : beginTrace()
  return {
    traceparent: `00-${here.traceId}-${here.spanId}-${here.traceFlags.toString(16).padStart(2, '0')}`,
    traceId: here.traceId,
    within: (work) => context.with(trace.setSpan(above, span), work),
    end(error) {
      if (error) {
        const shown = redactError(error)
        span.recordException(shown)
        span.setStatus({ code: SpanStatusCode.ERROR, message: shown.message })
      }
      span.end()
    },
  }
}

/** What a `traceparent` says; undefined for none, and for one that is not valid, which W3C wants ignored. */
function parentOf(traceparent: string | null | undefined): SpanContext | undefined {
  const [, version, traceId = '', spanId = '', flags = '', more] =
    /^([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(-.*)?$/.exec(traceparent ?? '') ?? []
  if (version === undefined || version === 'ff' || (version === '00' && more !== undefined)) return undefined
  const parent = { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true }
  return isSpanContextValid(parent) ? parent : undefined
}

/** A trace that nobody here records. It is marked as sampled, so that a process further on that has an SDK may record it. */
function beginTrace(): SpanContext {
  return { traceId: randomHex(16), spanId: randomHex(8), traceFlags: 1 }
}

// Asked for in large pieces: a call to the random source costs more than all else that a span does.
const random = Buffer.alloc(4096)
let used = random.length

function randomHex(bytes: number): string {
  if (used + bytes > random.length) {
    randomFillSync(random)
    used = 0
  }
  used += bytes
  return random.toString('hex', used - bytes, used)
}
