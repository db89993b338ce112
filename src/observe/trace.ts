// Tracing through OpenTelemetry's API alone; the operator adds the SDK to record spans. Without an SDK a trace still begins where a
// document or a request enters, and its `traceparent` travels on unchanged.
import { randomFillSync } from 'node:crypto'
import {
  type Attributes,
  context,
  isSpanContextValid,
  ProxyTracerProvider,
  ROOT_CONTEXT,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api'
import { redactError } from '../redact.ts'
import { version } from '../version.ts'

export interface SpanOptions {
  /** `producer` publishes messages, `consumer` handles one, `client` waits for a reply. */
  readonly kind: 'producer' | 'consumer' | 'client'
  /** The `traceparent` of the cause; null begins a new trace. Default: the active span of the caller, if there is one. */
  readonly parent?: string | null
  /** Called only when the span is recorded. Empty texts are left out. */
  readonly attributes?: () => Attributes
}

/** A step of a trace. */
export interface Span {
  /** For the messages that this step causes: W3C Trace Context, version 00. */
  readonly traceparent: string
  /** 32 hexadecimal digits, for logs. */
  readonly traceId: string
  /** Whether an SDK records it. */
  readonly isRecorded: boolean
  /** Adds attributes. Called only when the span is recorded. Empty texts are left out. */
  set(attributes: () => Attributes): void
  /** Runs `work` with this as the active span, so that spans of other libraries become its children. */
  within<T>(work: () => T): T
  /** Sets the status OK, which nothing can change later. Without it the status stays unset. */
  succeed(): void
  /** Ends the span; `error` says why the step failed. The status is its message, unless another is given. */
  end(error?: Error, status?: string): void
}

const kinds = { producer: SpanKind.PRODUCER, consumer: SpanKind.CONSUMER, client: SpanKind.CLIENT }

/** @example const span = startSpan('extract-topics chunk', { kind: 'consumer', parent: message.traceparent }) */
export function startSpan(name: string, options: SpanOptions): Span {
  const tracer = registeredTracer()
  return tracer ? startRecorded(tracer, name, options) : startUnrecorded(options.parent)
}

/** That of the SDK; undefined without one. */
function registeredTracer(): Tracer | undefined {
  const provider = trace.getTracerProvider()
  return provider instanceof ProxyTracerProvider
    ? provider.getDelegateTracer('graphmill', version)
    : provider.getTracer('graphmill', version)
}

function startRecorded(tracer: Tracer, name: string, { kind, parent, attributes }: SpanOptions): Span {
  const before = parentOf(parent)
  const root = parent === undefined ? context.active() : ROOT_CONTEXT
  const above = before ? trace.setSpanContext(root, before) : root
  const span = tracer.startSpan(name, { kind: kinds[kind] }, above)
  const set = (more: () => Attributes) => {
    if (!span.isRecording()) return
    for (const [key, value] of Object.entries(more()))
      if (value !== undefined && value !== '') span.setAttribute(key, value)
  }
  if (attributes) set(attributes)
  const own = span.spanContext()
  const here = isSpanContextValid(own) ? own : beginTrace()
  return {
    traceparent: traceparentOf(here),
    traceId: here.traceId,
    isRecorded: span.isRecording(),
    set,
    within: (work) => context.with(trace.setSpan(above, span), work),
    succeed() {
      span.setStatus({ code: SpanStatusCode.OK })
    },
    end(error, status) {
      if (error) {
        const shown = redactError(error)
        span.recordException(shown)
        span.setStatus({ code: SpanStatusCode.ERROR, message: status ?? shown.message })
      }
      span.end()
    },
  }
}

/** The latest span that is not recorded: the messages of a document have the same parent, so most messages find theirs here. */
let latest: { readonly parent: string; readonly span: Span } | undefined

function startUnrecorded(parent: string | null | undefined): Span {
  if (latest && parent === latest.parent) return latest.span
  const before = parent === undefined ? trace.getSpanContext(context.active()) : parentOf(parent)
  const span = unrecorded(before && isSpanContextValid(before) ? before : beginTrace())
  if (parent && before) latest = { parent, span }
  return span
}

/** It has no state, so steps with the same parent may share it. */
function unrecorded(here: SpanContext): Span {
  return {
    traceparent: traceparentOf(here),
    traceId: here.traceId,
    isRecorded: false,
    set() {},
    within: (work) => work(),
    succeed() {},
    end() {},
  }
}

function traceparentOf({ traceId, spanId, traceFlags }: SpanContext): string {
  return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`
}

/** The parsed `traceparent`; undefined when there is none or it is not valid: W3C requires that to be ignored. */
function parentOf(traceparent: string | null | undefined): SpanContext | undefined {
  const [, version, traceId = '', spanId = '', flags = '', more] =
    /^([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(-.*)?$/.exec(traceparent ?? '') ?? []
  if (version === undefined || version === 'ff' || (version === '00' && more !== undefined)) return undefined
  const parent = { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true }
  return isSpanContextValid(parent) ? parent : undefined
}

/** A trace that this process does not record. It is marked as sampled, so that a later process with an SDK may record it. */
function beginTrace(): SpanContext {
  return { traceId: randomHex(16), spanId: randomHex(8), traceFlags: 1 }
}

// Drawn in large pieces: one call to the random source costs more than everything else about a span.
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
