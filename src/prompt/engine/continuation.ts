// Asking for the rest of a reply that was cut off at the token limit: the model sees its latest items again, whole, and is
// asked to go on behind them. What was cut off is not shown, so that it is written anew and not guessed at.
import type { CompletionRequest } from '../../llm/llm.ts'
import type { ItemsForm } from './items-form.ts'

/** Items that are shown, at most. */
export const mostShown = 50

const words =
  'Your answer was cut off because it got too long. Above are the last of its items that are complete. ' +
  'Go on behind them, in the same form: write only the items that are still missing, and none a second time. ' +
  'If none is missing, write nothing.'

/** The request for what comes behind `items`, each as JSON text. */
export function continuationOf(
  request: CompletionRequest,
  items: readonly string[],
  form: ItemsForm,
): CompletionRequest {
  return {
    ...request,
    messages: [
      ...request.messages,
      { role: 'assistant', content: form.write(items.slice(-mostShown)) },
      {
        role: 'user',
        content: form.none === '' ? words : words.replace('write nothing', `write ${form.none}`),
      },
    ],
  }
}
