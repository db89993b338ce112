// A queue whose first leaves in constant time: an array moves all the others up.

export interface Queue<T> {
  push(item: T): void
  shift(): T | undefined
  clear(): void
}

export function createQueue<T>(): Queue<T> {
  let items: T[] = []
  let head = 0
  return {
    push: (item) => void items.push(item),
    shift() {
      if (head === items.length) return undefined
      const item = items[head++]
      if (head * 2 >= items.length) {
        items = items.slice(head)
        head = 0
      }
      return item
    },
    clear() {
      items = []
      head = 0
    },
  }
}
