// Prompt templates in two dialects: graphmill's, which is nunjucks' syntax over JSON values, and TrustGraph's. Templates are the
// operator's code. Terms are data, and are never read as a template.

import { GraphmillError } from '../../errors.ts'
import type { Terms } from '../catalogue/terms.ts'
import type { Dialect } from './dialect.ts'
import { renderTemplate } from './evaluate.ts'
import { parseTemplate } from './syntax.ts'
import { TemplateFault } from './tree.ts'
import { parseTrustGraph } from './trustgraph/parse.ts'
import { renderTrustGraph } from './trustgraph/render.ts'

export interface Template {
  /**
   * The text, for decoded terms. In a template of graphmill's dialect:
   * - objects, lists and booleans are written as JSON, null as nothing;
   * - objects have `.items()`, `.keys()` and `.values()` unless they own a member of that name; `x.0` is `x[0]`;
   * - undefined is an error when it is written or looped over;
   * - undefined, empty lists and empty objects are false in an `if`.
   * A template of TrustGraph's dialect renders as it does there: the terms are Python's values, and undefined is nothing.
   *
   * @throws GraphmillError `prompt_render_failed`; its details hold `prompt`, `line` and, if a term is the cause, `term`.
   */
  render(terms: Terms): string
}

/**
 * @param name the id of the prompt, for messages
 * @throws GraphmillError `prompt_invalid`; its details hold `prompt` and `line`.
 * @example compileTemplate('{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}', 'demo').render({ d: { a: 1 } }) // 'a=1;'
 */
export function compileTemplate(source: string, name: string, dialect: Dialect = 'graphmill'): Template {
  const render = naming('prompt_invalid', name, () => compilers[dialect](source))
  return { render: (terms) => naming('prompt_render_failed', name, () => render(terms)) }
}

const compilers: Readonly<Record<Dialect, (source: string) => Template['render']>> = {
  graphmill(source) {
    const body = parseTemplate(source)
    return (terms) => renderTemplate(body, new Map(Object.entries(terms)))
  },
  trustgraph(source) {
    const template = parseTrustGraph(source)
    return (terms) => renderTrustGraph(template, terms)
  },
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
