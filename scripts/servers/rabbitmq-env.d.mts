export interface RabbitmqPlace {
  readonly folder: string;
  /** As those who measure speed want it. */
  readonly isDurable?: boolean;
  port(index?: number): number;
  makeFolder(name: string): string;
}

export function rabbitmqEnv(server: RabbitmqPlace): Record<string, string>;
