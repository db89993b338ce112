// Topics: what a chunk is about.
import { defineExtractor, texts } from '../src/flow/extractor.ts'

export const extractTopics = defineExtractor({
  name: 'extract-topics',
  prompt: 'extract-topics',
  implied: 'topic',
  outputs: ['topics'],
  terms: (chunk) => ({ text: chunk.text }),
  grounding: { names: ['topic', 'name'], sentences: ['definition'] },
  facts: {
    topic(item) {
      const fact = texts(item, { topic: ['topic', 'name'], definition: ['definition'] })
      return 'refused' in fact ? fact : { to: 'topics', fact }
    },
  },
})
