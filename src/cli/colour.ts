// Colours, on a terminal only; NO_COLOR and FORCE_COLOR are respected, as by Node.
import { styleText } from 'node:util'

type Colour = 'red' | 'yellow' | 'green'

/** `text` in a colour, or unchanged if `stream` shows no colours. */
export function coloured(colour: Colour, text: string, stream: NodeJS.WriteStream): string {
  return styleText(colour, text, { stream })
}
