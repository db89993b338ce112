// Colours, on a terminal only: NO_COLOR and FORCE_COLOR are honoured as Node itself does.
import { styleText } from 'node:util'

type Colour = 'red' | 'yellow' | 'green'

/** `text` in a colour, or as it is where `stream` shows none. */
export function coloured(colour: Colour, text: string, stream: NodeJS.WriteStream): string {
  return styleText(colour, text, { stream })
}
