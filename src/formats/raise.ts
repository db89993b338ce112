// For readers whose caller wants an exception at the first bad record, as the ndjson specification recommends.
import { GraphmillError } from '../errors.ts'
import type { FormatEvent, FormatOptions } from './format.ts'

/** The events as they are; where `raise` is set, `record_invalid` is thrown in place of a rejected or truncated one. */
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
