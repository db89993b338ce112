// Logs: a constant phrase, data in fields, one JSON object a line on standard error. Keys never, prompt texts only at debug.
import { type DestinationStream, destination, type Logger, pino } from 'pino'
import { GraphmillError } from '../errors.ts'
import { redact } from '../redact.ts'

/** The root logger of a process; `to` is standard error, but for tests. */
export function createLogger(
  level: string,
  to: DestinationStream = destination({ fd: 2, sync: true }),
): Logger {
  const err = (error: unknown) => {
    if (!(error instanceof GraphmillError)) return pino.stdSerializers.err(error as Error)
    const { code, message, remedy, details, cause } = error
    // A coded error is no defect: its stack would only hide it. An unexpected one is.
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
