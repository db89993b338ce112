// A queue that removes its first item in constant time: an array would move all the others.

export interface Queue<T> {
  push(item: T): void
  /** The first, which stays. */
  peek(): T | undefined
  shift(): T | undefined
  clear(): void
}

export function createQueue<T>(): Queue<T> {
  let items: T[] = []
  let head = 0
  return {
    push: (item) => void items.push(item),
    peek: () => items[head],
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
