// Logs: a constant phrase with data in fields, one JSON object per line, on standard error; on a terminal, a readable line. Keys are never logged, prompt texts
// only at debug level.
import { type DestinationStream, destination, type Logger, pino } from 'pino'
import { GraphmillError } from '../errors.ts'
import { redact } from '../redact.ts'
import { readableLine } from './readable-log.ts'

/** The root logger of a process. Tests pass another destination. */
export function createLogger(level: string, to: DestinationStream = standardError()): Logger {
  const err = (error: unknown) => {
    if (!(error instanceof GraphmillError)) return pino.stdSerializers.err(error as Error)
    const { code, message, remedy, details, cause } = error
    // A coded error is not a defect, and its stack would only distract. An unexpected error is a defect.
    const stack = code === 'unexpected' && cause instanceof Error ? { stack: cause.stack } : {}
    return {
      code,
      message,
      remedy,
      ...(cause instanceof Error && { cause: cause.message }),
      ...details,
      ...stack,
    }
  }
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      serializers: { err },
      hooks: { streamWrite: redact },
    },
    to,
  )
}

function standardError(): DestinationStream {
  const stream = destination({ fd: 2, sync: true })
  if (!process.stderr.isTTY) return stream
  return { write: (line) => void stream.write(readableLine(line)) }
}
