import type { Sequelize } from 'sequelize';

export declare const sequelize: Sequelize;
