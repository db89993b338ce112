// Messages as the span of a call records them: in OpenArmature's form, without the bytes of images and without signatures.
import type { ContentBlock, Message } from './provider.ts'

type Fields = Readonly<Record<string, unknown>>

/** The messages with OpenArmature's names of fields. An image has its address, or the length of its data instead of the data. */
export function recordedMessages(messages: readonly Message[]): readonly Fields[] {
  return messages.map((message) => {
    const { role, content = null } = message
    const calls = 'toolCalls' in message && message.toolCalls
    return {
      role,
      content: typeof content === 'string' || content === null ? content : content.map(recordedBlock),
      ...(calls && {
        tool_calls: calls.map(({ id, name, arguments: given }) => ({ id, name, arguments: given })),
      }),
      ...('toolCallId' in message && { tool_call_id: message.toolCallId }),
    }
  })
}

function recordedBlock(block: ContentBlock): Fields {
  const { type } = block
  switch (type) {
    case 'text':
    case 'thinking':
      return { type, text: block.text }
    case 'redacted_thinking':
      return { type }
    case 'image': {
      const { source, mediaType, detail } = block
      return {
        type,
        source:
          source.type === 'url' ? source : { type: 'inline_redacted', byte_count: source.base64Data.length },
        ...(mediaType !== undefined && { media_type: mediaType }),
        ...(detail !== undefined && { detail }),
      }
    }
    default:
      return type satisfies never
  }
}
