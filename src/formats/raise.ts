// For callers that want an exception at the first bad record, as the ndjson specification recommends.
import { GraphmillError } from '../errors.ts'
import type { FormatEvent, FormatOptions } from './format.ts'

/** The events unchanged. When `raise` is set, a rejected or truncated text throws `record_invalid`. */
export async function* raising(
  events: AsyncIterable<FormatEvent>,
  { raise = false }: FormatOptions,
): AsyncGenerator<FormatEvent, void> {
  for await (const event of events) {
    if (raise && (event.type === 'rejected' || event.type === 'truncated'))
      throw new GraphmillError('record_invalid', `Line ${event.line}: ${event.message}`, {
        details: { ...event },
      })
    yield event
  }
}
