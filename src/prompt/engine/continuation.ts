// Asking for the rest of a reply that was cut off at the token limit: the model sees its latest whole items, and is asked to
// continue after them. The record that was cut off is not shown, so that the model writes it again and does not guess its end.
import type { CompletionRequest } from '../../llm/llm.ts'
import type { ItemsForm } from './items-form.ts'

/** Items that are shown, at most. */
export const maxShown = 50

const words =
  'Your answer was cut off because it got too long. Above are the last of its items that are complete. ' +
  'Go on behind them, in the same form: write only the items that are still missing, and none a second time. ' +
  'If none is missing, write nothing.'

/** The request for what comes after `items`, each as JSON text. */
export function continuationRequest(
  request: CompletionRequest,
  items: readonly string[],
  form: ItemsForm,
): CompletionRequest {
  return {
    ...request,
    messages: [
      ...request.messages,
      { role: 'assistant', content: form.write(items.slice(-maxShown)) },
      {
        role: 'user',
        content: form.none === '' ? words : words.replace('write nothing', `write ${form.none}`),
      },
    ],
  }
}
