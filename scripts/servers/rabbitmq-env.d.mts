export interface RabbitmqPlace {
  readonly folder: string;
  port(index?: number): number;
  makeFolder(name: string): string;
}

export function rabbitmqEnv(server: RabbitmqPlace): Record<string, string>;
