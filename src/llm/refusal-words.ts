// How models begin when they refuse to answer.

const refusal =
  /^\W*(i(['’]?m| am) sorry|sorry|i can(no|['’])t|i (am|['’]?m) (unable|not able)|i['’]?m (unable|not able)|as an ai\b)/i

/** Whether a reply that begins so is a refusal of the model. */
export function isRefusalOfModel(opening: string): boolean {
  return refusal.test(opening)
}
