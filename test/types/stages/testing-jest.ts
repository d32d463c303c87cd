export declare const expect: { extend(matchers: object): void };
