// What Pulsar's own words for a failure mean: the Java exceptions of its servers and the results of its native client.
import type { ErrorCode } from '../../errors.ts'

const refusals: readonly (readonly [RegExp, ErrorCode])[] = [
  [/exceed.*(size|bytes)|TooBig/i, 'message_too_large'],
  [/NotFound|DoesNotExist/, 'topic_missing'],
  [/Authoriz|Terminated|NotAllowed/, 'topic_refused'],
  [/Authentic/, 'broker_refused'],
  [/InvalidTopicName/, 'topic_name_invalid'],
  [
    /Time[Oo]ut|NotConnected|Disconnected|Retryable|QueueIsFull|Quota|TooMany|Connect|Lookup|MemoryBuffer|Busy|NotReady|Closed|Metadata|Persistence|Fenced/,
    'broker_unavailable',
  ],
]

export function codeOfRefusal(words: string): ErrorCode {
  return refusals.find(([pattern]) => pattern.test(words))?.[1] ?? 'unexpected'
}
