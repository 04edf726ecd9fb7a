/** Events of a flow in the order in which they came; one reader. */
export class EventQueue<Event> {
  readonly #events: Event[] = [];
  #wake: (() => void) | null = null;

  push(event: Event): void {
    this.#events.push(event);
    this.#wake?.();
  }

  async next(): Promise<Event> {
    for (;;) {
      const event = this.#events.shift();
      if (event !== undefined) return event;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      this.#wake = null;
    }
  }
}
