// Prompt templates: nunjucks' syntax over JSON values. Templates are the operator's code. Terms are data, and are never read as
// a template.

import { GraphmillError } from '../../errors.ts'
import { renderTemplate } from './evaluate.ts'
import { parseTemplate } from './syntax.ts'
import { TemplateFault } from './tree.ts'

export interface Template {
  /**
   * The text, for decoded terms. In a template:
   * - objects, lists and booleans are written as JSON, null as nothing;
   * - objects have `.items()`, `.keys()` and `.values()` unless they own a member of that name; `x.0` is `x[0]`;
   * - undefined is an error when it is written or looped over;
   * - undefined, empty lists and empty objects are false in an `if`.
   *
   * @throws GraphmillError `prompt_render_failed`; its details hold `prompt`, `line` and, if a term is the cause, `term`.
   */
  render(terms: Readonly<Record<string, unknown>>): string
}

/**
 * @param name the id of the prompt, for messages
 * @throws GraphmillError `prompt_invalid`; its details hold `prompt` and `line`.
 * @example compileTemplate('{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}', 'demo').render({ d: { a: 1 } }) // 'a=1;'
 */
export function compileTemplate(source: string, name: string): Template {
  const body = naming('prompt_invalid', name, () => parseTemplate(source))
  return {
    render: (terms) =>
      naming('prompt_render_failed', name, () => renderTemplate(body, new Map(Object.entries(terms)))),
  }
}

/** Runs `work`; a fault in it becomes an error that names the prompt and the line. */
function naming<T>(code: 'prompt_invalid' | 'prompt_render_failed', prompt: string, work: () => T): T {
  try {
    return work()
  } catch (error) {
    if (error instanceof TemplateFault) {
      const { line, term } = error
      const place = line > 0 ? `, line ${line}` : ''
      const details = { prompt, ...(line > 0 && { line }), ...(term !== undefined && { term }) }
      throw new GraphmillError(code, `prompt "${prompt}"${place}: ${error.message}`, {
        cause: error,
        details,
      })
    }
    // The stack overflowed: a template or a term is nested too deeply.
    if (error instanceof RangeError)
      throw new GraphmillError(code, `prompt "${prompt}": nested too deeply`, {
        cause: error,
        details: { prompt },
      })
    throw error
  }
}
