// Lets one loop sleep until something it looks at has changed. Look first, then wait, without an await in between.

export interface Wake {
  /** Resolves at the next `notify`. */
  wait(): Promise<void>
  notify(): void
}

export function createWake(): Wake {
  let next = Promise.withResolvers<void>()
  return {
    wait: () => next.promise,
    notify() {
      const { resolve } = next
      next = Promise.withResolvers<void>()
      resolve()
    },
  }
}
