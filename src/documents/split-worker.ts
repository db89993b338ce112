// The thread in which long texts are split.
import { parentPort, workerData } from 'node:worker_threads'
import { type SplitOptions, splitText } from './split.ts'

const { text, options } = workerData as { readonly text: string; readonly options: SplitOptions }
parentPort?.postMessage(await splitText(text, options))
