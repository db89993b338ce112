// What every reader of foreign JSON asks first.

/** Whether a value is an object as JSON knows it: neither null nor a list. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
