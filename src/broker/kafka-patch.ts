// Mends one fault of kafkajs 2.2.4: after its first answer every connection sets a timer of minus a trillion
// milliseconds, again and again, which costs each a thousand turns a second and prints a warning. This one is set only
// when requests wait. Where kafkajs is not laid out as it was, nothing is changed.
import { createRequire } from 'node:module'

interface RequestQueue {
  throttledUntil: number
  throttleCheckTimeoutId: NodeJS.Timeout | null
  readonly pending: readonly unknown[]
  checkPendingRequests(): void
  scheduleCheckPendingRequests(): void
}

const betweenChecksMs = 10

function schedule(this: RequestQueue): void {
  if (this.pending.length === 0 || this.throttleCheckTimeoutId !== null) return
  const check = () => {
    this.throttleCheckTimeoutId = null
    this.checkPendingRequests()
  }
  this.throttleCheckTimeoutId = setTimeout(check, Math.max(this.throttledUntil - Date.now(), betweenChecksMs))
}

export function patchKafkajs(): void {
  try {
    const { prototype }: { prototype: RequestQueue } = createRequire(import.meta.url)(
      'kafkajs/src/network/requestQueue',
    )
    if (typeof prototype.scheduleCheckPendingRequests === 'function') {
      prototype.scheduleCheckPendingRequests = schedule
    }
  } catch {
    // Bundled, or another version: the fault costs little.
  }
}
