// The thread in which long texts are split.
import { answerCalls } from '../workers/answer-calls.ts'
import { type SplitTask, splitText } from './split.ts'

answerCalls(({ text, options }: SplitTask) => splitText(text, options))
