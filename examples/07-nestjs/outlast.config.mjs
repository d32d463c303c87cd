// outlast.config.mjs: for the command line
import { defineConfig } from 'outlast';

export default defineConfig({ tasks: ['./dist/handlers.js'] });
